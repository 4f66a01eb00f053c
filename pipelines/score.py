"""Log-probability of given translations: for each pair its natural logarithm and its number of tokens, END counted.

Pairs come from --source and --target, or from standard input as source, tab, target. The sum over all pairs and the
perplexity go to standard error, or with --json all of it into one object.

    printf 'Hello world.\\tHallo Welt.\\n' | tf-transformer score --workdir run
"""

import argparse
import itertools
import json
import logging
from collections.abc import Iterator
from typing import BinaryIO

from tf_transformer.pipelines import cli
from tf_transformer.pipelines.model_arguments import add_model_arguments, load_text_model
from tf_transformer.pipelines.text_streams import open_input, open_output, quiet_broken_pipe

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument("--source", metavar="FILE", help="sentences, one a line")
    parser.add_argument("--target", metavar="FILE", help="their translations")
    parser.add_argument("--input", metavar="FILE", help="both as a table with a tab (default: standard input)")
    parser.add_argument("--output", metavar="FILE", help="appears when all is scored (default: standard output)")
    parser.add_argument("--json", action="store_true", help="one JSON object with the total and the perplexity")


def run(args: argparse.Namespace) -> int:
    if (args.source is None) != (args.target is None):
        raise ValueError("--source and --target go together: give both, or neither for a table on standard input.")
    with quiet_broken_pipe():
        with open_output(args.output) as output:
            total, tokens, pairs = _score(args, load_text_model(args), output)
        if not args.json and tokens:
            logger.info(_summary(total, tokens, pairs))
    return 0


def _score(args: argparse.Namespace, model, output: BinaryIO) -> tuple[float, int, int]:
    """Writes the scores, and returns the log-probability, the tokens and the pairs in all."""
    from tf_transformer.decoding.line_translation import CHUNK_BYTES, CHUNK_LINES
    from tf_transformer.text.lines import chunks

    scores: list[list] = []
    total, tokens, pairs = 0.0, 0, 0
    for chunk in chunks(_pairs(args), CHUNK_LINES, CHUNK_BYTES):
        found = _score_chunk(model, chunk)
        total += sum(score for score, _ in found)
        tokens += sum(count for _, count in found)
        pairs += len(found)
        if args.json:
            scores += [[round(score, 6), count] for score, count in found]
        else:
            output.write("".join(f"{score:.6f}\t{count}\n" for score, count in found).encode())
            output.flush()
    if args.json:
        output.write(_json(total, tokens, scores).encode())
    return total, tokens, pairs


def _score_chunk(model, chunk: list[bytes]) -> list[tuple[float, int]]:
    from tf_transformer.decoding.length_batches import in_batches
    from tf_transformer.decoding.side_by_side import batches_at_a_time

    sides = [line.partition(b"\t") for line in chunk]
    columns = [source for source, _, _ in sides], [target for _, _, target in sides]
    return in_batches(model.scores, *columns, threads=batches_at_a_time())


def _pairs(args: argparse.Namespace) -> Iterator[bytes]:
    """The pairs as lines: source, tab, target."""
    if args.source is None:
        yield from _table(args.input)
        return
    from tf_transformer.text.lines import read_lines

    with open(args.source, "rb") as source, open(args.target, "rb") as target:
        sides = read_lines(source), read_lines(target)
        for number, pair in enumerate(itertools.zip_longest(*sides)):
            if None in pair:
                counts = [number + (line is not None) + sum(1 for _ in side) for line, side in zip(pair, sides)]
                raise ValueError(
                    f"{args.source} and {args.target} must have as many lines as each other; they have {counts[0]:,} "
                    f"and {counts[1]:,}. Are they of the same test set?"
                )
            # A tab in a source would end its column; SentencePiece takes it for a space anyway.
            yield pair[0].replace(b"\t", b" ") + b"\t" + pair[1]


def _table(path: str | None) -> Iterator[bytes]:
    from tf_transformer.text.lines import read_lines

    with open_input(path) as stream:
        for number, line in enumerate(read_lines(stream), start=1):
            if b"\t" not in line:
                raise ValueError(f"Line {number} of the table has no tab; expected source, tab, target.")
            yield line


def _summary(total: float, tokens: int, pairs: int) -> str:
    from tf_transformer.evaluation import perplexity

    mean = perplexity(total, tokens)
    return f"total {total:.4f} over {pairs:,} pairs, {tokens:,} tokens; perplexity {mean:.4f} a token"


def _json(total: float, tokens: int, scores: list[list]) -> str:
    from tf_transformer.evaluation import perplexity

    values = {
        "total": total,
        "tokens": tokens,
        "pairs": len(scores),
        "perplexity": perplexity(total, tokens) if tokens else None,
        "scores": [score for score, _ in scores],
        "tokens_per_pair": [count for _, count in scores],
    }
    return json.dumps(values) + "\n"


if __name__ == "__main__":
    cli.main_of("score")
