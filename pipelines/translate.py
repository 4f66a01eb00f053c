"""Translate lines of text: as many lines out as in, any number of them, in bounded memory.

From --input or standard input to --output or standard output. A line ends at a line feed alone; bytes that are not
UTF-8 are replaced. With --nbest N the output is a table with tabs: line number, rank, log-probability, text.

    echo "Hello world." | tf-transformer translate --workdir run
"""

import argparse
import logging
from typing import BinaryIO

from tf_transformer.pipelines import cli
from tf_transformer.pipelines._model_arguments import (
    add_decoding_arguments,
    add_model_arguments,
    add_sampling_arguments,
    load_text_model,
)
from tf_transformer.pipelines._text_io import open_input, open_output, quiet_broken_pipe

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument("--input", metavar="FILE", help="text, one sentence per line (default: standard input)")
    parser.add_argument("--output", metavar="FILE", help="file that appears when complete (default: standard output)")
    parser.add_argument(
        "--nbest", "--n-best", type=int, metavar="N", help="the N best translations of each line, as a table"
    )
    parser.add_argument(
        "--chunk-lines",
        type=int,
        metavar="N",
        help="lines read before any is translated, so that those of similar length are batched "
        "(default: 4096; 1 where the input is a terminal)",
    )
    add_decoding_arguments(parser)
    add_sampling_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.chunk_lines is not None and args.chunk_lines < 1:
        raise ValueError(
            f"Expected --chunk-lines to be at least 1. Received: {args.chunk_lines}. 1 translates line by line."
        )
    _widen_beam(args)
    with quiet_broken_pipe(), open_input(args.input) as source, open_output(args.output) as target:
        _translate(load_text_model(args), source, target, args)
    return 0


def _translate(model, source: BinaryIO, target: BinaryIO, args: argparse.Namespace) -> None:
    from tf_transformer._progress import Progress
    from tf_transformer.decoding import CHUNK_LINES, LineTranslation
    from tf_transformer.text import read_lines

    chunk_lines = args.chunk_lines or (1 if source.isatty() else CHUNK_LINES)
    with Progress("translating", None, "lines") as progress:
        translation = LineTranslation(model, args.nbest, chunk_lines, progress.update)
        for text in translation(read_lines(source)):
            target.write(text.encode())
            target.flush()
    if translation.num_truncated:
        first = ", ".join(map(str, translation.truncated))
        more = " …" if translation.num_truncated > len(translation.truncated) else ""
        logger.warning(
            f"{translation.num_truncated:,} of {translation.lines:,} lines were too long and were truncated "
            f"(line {first}{more}). Split them, or raise decoding.max_source_length."
        )


def _widen_beam(args: argparse.Namespace) -> None:
    """Widen the beam to the number of translations requested, unless --beam-size is given."""
    if args.nbest is None:
        return
    if args.nbest < 1:
        raise ValueError(f"Expected --nbest to be at least 1. Received: {args.nbest}.")
    if args.saved_model is None and args.workdir is not None and args.beam_size is None:
        from tf_transformer.pipelines._model_arguments import decoding_config

        args.beam_size = max(args.nbest, decoding_config(args).beam_size)


if __name__ == "__main__":
    cli.main_of("translate")
