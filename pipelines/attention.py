"""Attention maps of a trained model, per layer and head: figures, arrays and an interactive page.

With a sentence, every layer and head of encoder self-attention, decoder self-attention and cross-attention:
attention.html (offline, open it in a browser), PNG and SVG figures, attention.npz. With --summary,
statistics of each head over a corpus. With --positions, the positional encodings and their dot products. With
--choose-alignment, the heads of the decoder that align words best are chosen and written to WORKDIR/config.json.
"""

import argparse
import itertools
import json
import logging
import pathlib

from tf_transformer.pipelines import cli
from tf_transformer.pipelines._model_arguments import add_language_arguments
from tf_transformer.pipelines._text_io import lines_of_files, lines_of_split, open_file

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="?", metavar="TEXT", help="source sentence")
    parser.add_argument("--workdir", metavar="DIR", required=True, help="work directory that `train` wrote")
    parser.add_argument(
        "--checkpoint",
        default="auto",
        metavar="NAME",
        help="average, best, latest or a name (default: the first that exists)",
    )
    parser.add_argument("--target", metavar="TEXT", help="target sentence (default: the model's translation)")
    add_language_arguments(parser)
    parser.add_argument("--output", metavar="DIR", help="directory of the files (default: WORKDIR/attention)")
    parser.add_argument("--layers", type=_numbers, metavar="1,2", help="layers in the figures (default: all)")
    parser.add_argument("--heads", type=_numbers, metavar="1,2", help="heads in the figures (default: all)")
    parser.add_argument("--positions", action="store_true", help="draw the positional encodings")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    corpus = parser.add_argument_group("heads over a corpus")
    corpus.add_argument("--summary", action="store_true", help="entropy, distance and share of neighbours, per head")
    corpus.add_argument(
        "--choose-alignment",
        action="store_true",
        help="choose the heads for word alignment (decoding.alignment_heads) and write them to WORKDIR/config.json",
    )
    corpus.add_argument(
        "--alignments", metavar="FILE", help="gold alignments of --source and --reference, to choose by: 0-0 1-2 2?2"
    )
    corpus.add_argument("--data", metavar="DIR", help="prepared directory (default: the one the model was trained on)")
    corpus.add_argument("--split", default="test", help="split of the data: test or validation (default: test)")
    corpus.add_argument("--source", metavar="FILE", help="source sentences instead, one per line")
    corpus.add_argument("--reference", metavar="FILE", help="reference translations of --source")
    corpus.add_argument(
        "--max-pairs", type=int, default=500, metavar="N", help="number of pairs at most (default: 500)"
    )


def run(args: argparse.Namespace) -> int:
    output = pathlib.Path(args.output or pathlib.Path(args.workdir) / "attention")
    if args.text is None and not (args.summary or args.positions or args.choose_alignment):
        raise ValueError(
            "Expected a sentence (in quotes), --summary, --positions or --choose-alignment. Received: none of them."
        )
    result: dict = {"files": []}
    if args.text is not None:
        _maps(args, output, result)
    if args.positions:
        _positions(args, output, result)
    if args.summary:
        _summary(args, output, result)
    if args.choose_alignment:
        _choose_alignment(args, result)
    _print(args, result)
    return 0


def _maps(args: argparse.Namespace, output: pathlib.Path, result: dict) -> None:
    from tf_transformer.analysis.attention import maps_of_workdir, write_maps

    languages = args.source_language, args.target_language
    maps = maps_of_workdir(args.workdir, args.text, args.target, args.checkpoint, languages)
    result |= {"source": maps.source, "target": maps.predicted}
    result["files"] += write_maps(maps, output, args.layers, args.heads)


def _positions(args: argparse.Namespace, output: pathlib.Path, result: dict) -> None:
    from tf_transformer.analysis.attention import positions_figure, positions_of_model, write_figure
    from tf_transformer.workdir import Workdir

    workdir = Workdir(args.workdir)
    vectors = positions_of_model(workdir.load_model(args.checkpoint))
    title = f"Positional encodings ({workdir.config.model.positions})"
    result["files"] += write_figure(positions_figure(vectors, title), output / "positions")


def _summary(args: argparse.Namespace, output: pathlib.Path, result: dict) -> None:
    from tf_transformer.analysis.attention import summarize_heads, summary_rows, summary_text, write_summary
    from tf_transformer.workdir import Workdir

    workdir = Workdir(args.workdir)
    pairs = _pairs(args)
    heads = summarize_heads(workdir.load_model(args.checkpoint), workdir.tokenizers, pairs)
    result |= {"pairs": len(pairs), "heads": summary_rows(heads), "table": summary_text(heads)}
    result["files"] += write_summary(heads, output)


def _choose_alignment(args: argparse.Namespace, result: dict) -> None:
    from tf_transformer.analysis.attention import candidates_text, compare_alignment_heads
    from tf_transformer.workdir import Workdir

    workdir, pairs = Workdir(args.workdir), _pairs(args)
    gold = None if args.alignments is None else _gold(args, len(pairs))
    found = compare_alignment_heads(workdir.load_model(args.checkpoint), workdir.tokenizers, pairs, gold)
    workdir.change_decoding(alignment_heads=found[0].heads)
    result |= {"pairs": len(pairs), "alignment_heads": found[0].heads, "candidates": [each._asdict() for each in found]}
    tables = [result.pop("table", None), candidates_text(found)]
    result["table"] = "\n\n".join(table for table in tables if table)
    logger.info("decoding.alignment_heads=%s is written to %s.", found[0].heads, workdir.path / "config.json")


def _gold(args: argparse.Namespace, count: int) -> list:
    """The sure and possible links of --alignments."""
    from tf_transformer.evaluation import parse_links
    from tf_transformer.text import read_lines

    if args.source is None:
        raise ValueError("Expected --source and --reference with --alignments. Received: neither. Add them.")
    with open_file(args.alignments) as stream:
        lines = list(itertools.islice(read_lines(stream), count))
    if len(lines) < count:
        raise ValueError(f"Expected as many lines in --alignments as pairs, {count}. Received: {len(lines)}.")
    return [parse_links(line.decode("utf-8", "replace")) for line in lines]


def _pairs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """The sentence pairs of --summary and --choose-alignment."""
    if (args.source is None) != (args.reference is None):
        raise ValueError(
            "Expected --source and --reference together. Received: one of them. Give both, or neither for a split."
        )
    sides = lines_of_files(args.source, args.reference) if args.source else lines_of_split(args)
    return list(itertools.islice(zip(*sides), args.max_pairs))


def _print(args: argparse.Namespace, result: dict) -> None:
    table = result.pop("table", None)
    result["files"] = [str(path) for path in result["files"]]
    if args.json:
        print(json.dumps(result, ensure_ascii=False))
        return
    if table:
        print(table)
    for path in result["files"]:
        print(path)


def _numbers(text: str) -> list[int]:
    """Indices counted from 0, parsed from numbers counted from 1, such as "1,3" or "2-4"."""
    try:
        ranges = [tuple(map(int, part.split("-"))) for part in text.split(",")]
        numbers = [number - 1 for ends in ranges for number in range(ends[0], ends[-1] + 1)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers such as 1,3 or 2-4. Received: {text!r}") from None
    if not numbers or min(numbers) < 0:
        raise argparse.ArgumentTypeError(f"expected numbers from 1 on, such as 1,3 or 2-4. Received: {text!r}")
    return numbers


if __name__ == "__main__":
    cli.main_of("attention")
