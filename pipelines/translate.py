"""Translate lines of text: as many lines out as in, any number of them, in bounded memory; or whole files.

From --input or standard input to --output or standard output. A line ends at a line feed alone; bytes that are not
UTF-8 are replaced. A line may have several sentences. With --nbest N the output is a table with tabs: line
number, rank, log-probability, text. With --alignment it is the words of both sides and the links between them in
Pharaoh format (0-0 1-2), or JSON with offsets and confidences. Both take each line for one sentence.

With --documents the files are translated into the directory --output, under their names: text with its line breaks,
indentation and bullets (.txt), and subtitles with their times (.srt, .vtt).

    echo "Hello world." | tf-transformer translate --workdir run
    tf-transformer translate --workdir run --documents letter.txt film.srt --output translated
    tf-transformer translate --workdir nllb --source-language eng_Latn --target-language deu_Latn < lines.txt
"""

import argparse
import logging
from typing import Any, BinaryIO

from tf_transformer.pipelines import cli
from tf_transformer.pipelines._beam_arguments import add_engine_arguments, check_engine
from tf_transformer.pipelines._model_arguments import (
    add_decoding_arguments,
    add_language_arguments,
    add_model_arguments,
    add_sampling_arguments,
    add_segmentation_argument,
    add_shortlist_argument,
    decoding_settings,
    load_text_model,
    require_languages,
)
from tf_transformer.pipelines._text_io import open_input, open_output, quiet_broken_pipe

logger = logging.getLogger(__name__)

MAX_TEXT_BYTES = 64 << 20
"""Bytes of a line that is translated sentence by sentence."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument("--input", metavar="FILE", help="lines of text (default: standard input)")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="file that appears when complete (default: standard output); with --documents a directory",
    )
    parser.add_argument("--documents", nargs="+", metavar="FILE", help="whole files to translate: .txt, .srt, .vtt")
    parser.add_argument(
        "--nbest", "--n-best", type=int, metavar="N", help="the N best translations of each line, as a table"
    )
    parser.add_argument(
        "--alignment",
        nargs="?",
        const="pharaoh",
        choices=("pharaoh", "json"),
        help="align words: source words ||| target words ||| links (pharaoh, the default), or one JSON object per line",
    )
    parser.add_argument(
        "--chunk-lines",
        type=int,
        metavar="N",
        help="lines read before any is translated, so that those of similar length are batched "
        "(default: 4096; 1 where the input is a terminal)",
    )
    add_language_arguments(parser)
    add_segmentation_argument(parser)
    add_shortlist_argument(parser)
    _add_beam_arguments(parser)
    add_decoding_arguments(parser)
    add_sampling_arguments(parser)


def _add_beam_arguments(parser: argparse.ArgumentParser) -> None:
    add_engine_arguments(parser)
    parser.add_argument("--workers", type=int, metavar="N", help="processes of --engine beam (default: one per core)")
    parser.add_argument("--shard-lines", type=int, metavar="N", help="lines per shard of --engine beam (default: 4096)")


def run(args: argparse.Namespace) -> int:
    if args.engine == "beam":
        return _translate_on_beam(args)
    check_engine(args, "beam_options", "workers", "shard_lines")
    if args.chunk_lines is not None and args.chunk_lines < 1:
        raise ValueError(
            f"Expected --chunk-lines to be at least 1. Received: {args.chunk_lines}. 1 translates line by line."
        )
    if args.documents is not None:
        return _translate_documents(args)
    if args.nbest is not None and args.alignment is not None:
        raise ValueError("Expected --nbest or --alignment. Received: both. Leave one of them out.")
    _widen_beam(args)
    with quiet_broken_pipe(), open_input(args.input) as source, open_output(args.output) as target:
        model = load_text_model(args)
        require_languages(model)
        _translate(model, source, target, args)
    return 0


def _translate(model: Any, source: BinaryIO, target: BinaryIO, args: argparse.Namespace) -> None:
    from tf_transformer._progress import Progress
    from tf_transformer.decoding import CHUNK_LINES, LineTranslation
    from tf_transformer.text import MAX_LINE_BYTES, read_lines

    # A line that is translated as a whole is never truncated.
    whole = args.nbest is None and args.alignment is None and model.segments
    lines = read_lines(source, MAX_TEXT_BYTES if whole else MAX_LINE_BYTES, truncate=not whole)
    chunk_lines = args.chunk_lines or (1 if source.isatty() else CHUNK_LINES)
    with Progress("translating", None, "lines") as progress:
        translation = LineTranslation(model, args.nbest, chunk_lines, progress.update, args.alignment)
        for text in translation(lines):
            target.write(text.encode())
            target.flush()
    if translation.num_several:
        logger.warning(
            f"{translation.num_several:,} of {translation.lines:,} lines have several sentences, and "
            f"{'--alignment' if args.alignment else '--nbest'} takes each line for one: parts of them may be missing. "
            "Put each sentence on its own line."
        )
    if translation.num_truncated:
        first = ", ".join(map(str, translation.truncated))
        more = " …" if translation.num_truncated > len(translation.truncated) else ""
        logger.warning(
            f"{translation.num_truncated:,} of {translation.lines:,} lines were too long and were truncated "
            f"(line {first}{more}). Split them, or raise decoding.max_source_length."
        )


def _translate_documents(args: argparse.Namespace) -> int:
    rejected = {
        "--input": args.input,
        "--nbest": args.nbest,
        "--alignment": args.alignment,
        "--chunk-lines": args.chunk_lines,
    }
    for flag, value in rejected.items():
        if value is not None:
            raise ValueError(f"Expected no {flag} with --documents. Received: {flag} {value}. Leave it out.")
    if args.no_segmentation:
        raise ValueError(
            "Expected no --no-segmentation with --documents, which are split into sentences. Leave it out."
        )
    if args.output is None:
        raise ValueError("Expected --output DIR with --documents, a directory for the translated files. Add it.")
    from tf_transformer._progress import Progress
    from tf_transformer.pipelines._documents import DocumentFiles

    files = DocumentFiles(args.documents, args.output)
    model = load_text_model(args)
    require_languages(model)
    with Progress("translating", None, "texts") as progress:
        for path in files.translate(model, progress.update):
            print(path, flush=True)
    return 0


def _translate_on_beam(args: argparse.Namespace) -> int:
    _check_beam_arguments(args)
    from tf_transformer._beam import BeamJobs

    with BeamJobs.open(args.output, args.beam_options, args.workers) as jobs:
        from tf_transformer.decoding.on_beam import SHARD_LINES, FileTranslation

        assert jobs is not None  # --engine beam
        found = FileTranslation(
            args.saved_model,
            args.input,
            args.output,
            SHARD_LINES if args.shard_lines is None else args.shard_lines,
            as_sentences=args.no_segmentation,
            target_language=args.target_language,
        ).run(jobs)
    logger.info(
        f"{args.output}: {found.lines:,} lines in {found.shards:,} shards, {found.reused:,} of them from an earlier run"
    )
    for what, lines in (("failed and are empty", found.failed), ("were too long and were truncated", found.truncated)):
        if lines:
            first = ", ".join(map(str, lines[:5])) + (" …" if len(lines) > 5 else "")
            logger.warning(f"{len(lines):,} of {found.lines:,} lines {what} (line {first}).")
    return 0


def _check_beam_arguments(args: argparse.Namespace) -> None:
    rejected = {"--documents": args.documents, "--nbest": args.nbest, "--chunk-lines": args.chunk_lines}
    settings = [each for each in decoding_settings(args) if each != "decoding.segmentation=false"]
    rejected |= {"--workdir": args.workdir, "--checkpoint": args.checkpoint, "--set": settings or None}
    rejected |= {"--alignment": args.alignment, "--shortlist": args.shortlist}
    rejected |= {"--source-language": args.source_language}
    for flag, value in rejected.items():
        if value is not None:
            raise ValueError(
                f"Expected no {flag} with --engine beam, which runs an export as it is. Received: {flag}. Leave it out."
            )
    if args.target_language and args.no_segmentation:
        raise ValueError(
            "Expected --target-language or --no-segmentation with --engine beam. Received: both. Export with "
            f"--target-language {args.target_language}, and leave it out here."
        )
    for flag, value in {"--saved-model": args.saved_model, "--input": args.input, "--output": args.output}.items():
        if value in (None, "-"):
            raise ValueError(f"Expected {flag} with --engine beam. Received: none. Add it.")


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
