"""Export a checkpoint as a SavedModel with text in and text out, as the next version in MODEL_BASE.

The options of the search are fixed in the export; those not given are the work directory's. Before a version is
published, a parity check loads it in a separate process and compares its answers with the checkpoint's; if they
differ, nothing is published and the exit code is 1. Prints the path of the new version.

With --format ctranslate2, the output is a new directory for CTranslate2 instead.
"""

import argparse
import pathlib

from tf_transformer.pipelines import cli
from tf_transformer.pipelines._model_arguments import (
    add_decoding_arguments,
    add_language_arguments,
    add_segmentation_argument,
    add_shortlist_argument,
    decoding_settings,
)

_SEARCH = {
    "max_source_length": "tokens of a source sentence; longer ones are split, or truncated if segmentation is off",
    "max_extra_length": "tokens by which an output may exceed its source",
    "nbest": "translations in the signature nbest (default: all beams)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workdir", required=True, metavar="DIR", help="work directory that `train` wrote")
    parser.add_argument("--output", required=True, metavar="MODEL_BASE", help="directory of the versions 1, 2, 3, …")
    parser.add_argument(
        "--checkpoint",
        default="auto",
        metavar="NAME",
        help="average, best, latest, step-XXXXXXXX or a path (default: the first of these that exists)",
    )
    add_decoding_arguments(parser)
    for name, summary in _SEARCH.items():
        names = [f"--{name.replace('_', '-')}", *(["--n-best"] if name == "nbest" else [])]
        parser.add_argument(*names, type=int, metavar="N", help=summary)
    add_segmentation_argument(parser)
    add_shortlist_argument(parser)
    add_language_arguments(parser)
    parser.add_argument(
        "--weights",
        default="float32",
        metavar="TYPE",
        help="type of the weights: float32, float16 or bfloat16 (smaller files), int8 (smaller and faster; needs "
        "oneDNN on x86-64) (default: float32)",
    )
    parser.add_argument(
        "--packed",
        action="store_true",
        help="pack the decoder's weights once instead of at each call, for steps of at most 6 hypotheses (sentences x "
        "beams): faster for single sentences, for more memory; needs oneDNN on x86-64 and a beam size of at most 6",
    )
    parser.add_argument(
        "--format", default="saved_model", choices=("saved_model", "ctranslate2"), help="default: %(default)s"
    )


def run(args: argparse.Namespace) -> int:
    given = {name: getattr(args, name) for name in _SEARCH}
    settings = decoding_settings(args) + [f"decoding.{name}={n}" for name, n in given.items() if n is not None]
    if args.format == "ctranslate2":
        print(_export_ctranslate2(args, settings))
    else:
        print(_export_saved_model(args, settings))
    return 0


def _export_saved_model(args: argparse.Namespace, settings: list[str]) -> pathlib.Path:
    from tf_transformer.export import export_saved_model
    from tf_transformer.workdir import Workdir

    workdir = Workdir(args.workdir)
    decoding = workdir.config.override(settings).decoding
    names = [setting.partition("=")[0].strip().removeprefix("decoding.") for setting in settings]
    search = {name: getattr(decoding, name) for name in names}
    languages = args.source_language, args.target_language
    return export_saved_model(
        workdir, args.output, args.checkpoint, args.weights, args.shortlist, languages, args.packed, **search
    ).path


def _export_ctranslate2(args: argparse.Namespace, settings: list[str]) -> pathlib.Path:
    from tf_transformer.export import export_ctranslate2

    if args.source_language or args.target_language:
        raise ValueError(
            "Expected no languages with --format ctranslate2. Received: "
            f"{args.source_language or args.target_language!r}. Leave them out: CTranslate2 takes their tokens as text."
        )
    if settings:
        raise ValueError(
            f"Expected no options of the search with --format ctranslate2. Received: {settings[0]}. Leave it out: "
            "CTranslate2 takes them when it translates."
        )
    if args.packed:
        raise ValueError("Expected no --packed with --format ctranslate2. Leave it out: CTranslate2 packs by itself.")
    if args.shortlist is not None:
        raise ValueError(
            "Expected no --shortlist with --format ctranslate2. Leave it out: CTranslate2 has its own maps."
        )
    return export_ctranslate2(args.workdir, args.output, args.checkpoint, args.weights)


if __name__ == "__main__":
    cli.main_of("export")
