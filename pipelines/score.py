"""Log-probability of given translations: per pair the natural logarithm and the number of tokens with EOS.

Pairs come from --source and --target, or from standard input as source, tab, target. The sum over all pairs and the
perplexity are printed to standard error, or with --json everything as one object.

    printf 'Hello world.\\tHallo Welt.\\n' | tf-transformer score --workdir run
"""

import argparse
import dataclasses
import itertools
import json
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from tf_transformer.pipelines import cli
from tf_transformer.pipelines._model_arguments import (
    add_language_arguments,
    add_model_arguments,
    load_text_model,
    require_languages,
)
from tf_transformer.pipelines._text_io import open_file, open_input, open_output, quiet_broken_pipe

if TYPE_CHECKING:
    from tf_transformer.decoding import ExportedModel, LoadedModel

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument("--source", metavar="FILE", help="source sentences, one per line")
    parser.add_argument("--target", metavar="FILE", help="translations of --source")
    parser.add_argument(
        "--input", metavar="FILE", help="both in one file: source, tab, target (default: standard input)"
    )
    parser.add_argument("--output", metavar="FILE", help="file that appears when complete (default: standard output)")
    add_language_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object with the total and the perplexity")


def run(args: argparse.Namespace) -> int:
    if (args.source is None) != (args.target is None):
        raise ValueError(
            "Expected --source and --target together. Received: one of them. Give both, or neither for --input."
        )
    with quiet_broken_pipe():
        with open_output(args.output) as output:
            model = load_text_model(args)
            require_languages(model)
            totals = _score(args, model, output)
        if not args.json and totals.tokens:
            logger.info(_summary(totals))
        if totals.truncated:
            logger.warning(_truncation(totals))
    return 0


@dataclasses.dataclass
class _Totals:
    """Sums over the pairs so far.

    truncated: number of truncated pairs; None if the model does not report it.
    first_truncated: positions of the first few of them, counted from 1.
    """

    log_prob: float = 0.0
    tokens: int = 0
    pairs: int = 0
    truncated: int | None = 0
    first_truncated: list[int] = dataclasses.field(default_factory=list)

    def add(self, found: list) -> None:
        from tf_transformer.decoding import count_truncated

        self.log_prob += sum(pair.log_prob for pair in found)
        self.tokens += sum(pair.tokens for pair in found)
        more = count_truncated(found)
        self.truncated = None if more is None or self.truncated is None else self.truncated + more
        truncated = [number for number, pair in enumerate(found, start=self.pairs + 1) if pair.truncated]
        self.first_truncated = [*self.first_truncated, *truncated][:5]
        self.pairs += len(found)


def _score(args: argparse.Namespace, model: "LoadedModel | ExportedModel", output: BinaryIO) -> _Totals:
    """Write the scores, and return their sums."""
    from tf_transformer._progress import Progress
    from tf_transformer.decoding import CHUNK_BYTES, CHUNK_LINES
    from tf_transformer.text import chunks

    totals, scores = _Totals(), []
    with Progress("scoring", None) as progress:
        for chunk in chunks(_pairs(args), CHUNK_LINES, CHUNK_BYTES):
            found = _score_chunk(model, chunk, progress.update)
            totals.add(found)
            if args.json:
                scores += [(round(pair.log_prob, 6), pair.tokens) for pair in found]
            else:
                output.write("".join(f"{pair.log_prob:.6f}\t{pair.tokens}\n" for pair in found).encode())
                output.flush()
    if args.json:
        output.write(_json(totals, scores).encode())
    return totals


def _score_chunk(model: "LoadedModel | ExportedModel", chunk: list[bytes], done: Callable[[int], None]) -> list:
    from tf_transformer.decoding import in_batches, parallel_batches

    sides = [line.partition(b"\t") for line in chunk]
    columns = [source for source, _, _ in sides], [target for _, _, target in sides]
    return in_batches(model.score, *columns, threads=parallel_batches(), done=done)


def _pairs(args: argparse.Namespace) -> Iterator[bytes]:
    """The pairs as lines: source, tab, target."""
    if args.source is None:
        yield from _table(args.input)
        return
    from tf_transformer.text import read_lines

    with open_file(args.source) as source, open_file(args.target) as target:
        sides = read_lines(source), read_lines(target)
        for number, pair in enumerate(itertools.zip_longest(*sides)):
            if None in pair:
                counts = [number + (line is not None) + sum(1 for _ in side) for line, side in zip(pair, sides)]
                raise ValueError(
                    f"Expected as many lines in {args.source} as in {args.target}. Received: {counts[0]:,} and "
                    f"{counts[1]:,}. Check that both belong to the same test set."
                )
            # A tab in a source would end its column; SentencePiece takes it for a space anyway.
            yield pair[0].replace(b"\t", b" ") + b"\t" + pair[1]


def _table(path: str | None) -> Iterator[bytes]:
    from tf_transformer.text import MAX_LINE_BYTES, read_lines

    with open_input(path) as stream:
        for number, line in enumerate(read_lines(stream), start=1):
            if b"\t" not in line and len(line) < MAX_LINE_BYTES:
                raise ValueError(f"Expected lines of source, tab, target. Received: line {number} without a tab.")
            # A source so long that the line was truncated before its tab is a truncated pair.
            yield line if b"\t" in line else line + b"\t"


def _summary(totals: _Totals) -> str:
    from tf_transformer.evaluation import perplexity

    mean = perplexity(totals.log_prob, totals.tokens)
    over = f"{totals.pairs:,} pairs, {totals.tokens:,} tokens"
    return f"total {totals.log_prob:.4f} over {over}; perplexity {mean:.4f} per token"


def _truncation(totals: _Totals) -> str:
    first = ", ".join(map(str, totals.first_truncated))
    more = " …" if (totals.truncated or 0) > len(totals.first_truncated) else ""
    return (
        f"{totals.truncated:,} of {totals.pairs:,} pairs were too long and were truncated (pair {first}{more}): their "
        "scores are of what remained. Split them, or raise decoding.max_source_length in WORKDIR/config.json."
    )


def _json(totals: _Totals, scores: list[tuple[float, int]]) -> str:
    from tf_transformer.evaluation import finite, perplexity

    values = {
        "total": finite(totals.log_prob),
        "tokens": totals.tokens,
        "pairs": totals.pairs,
        "truncated": totals.truncated,
        "perplexity": finite(perplexity(totals.log_prob, totals.tokens)) if totals.tokens else None,
        "scores": [finite(score) for score, _ in scores],
        "tokens_per_pair": [count for _, count in scores],
    }
    return json.dumps(values) + "\n"


if __name__ == "__main__":
    cli.main_of("score")
