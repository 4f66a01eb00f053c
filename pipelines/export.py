"""Write a checkpoint as a SavedModel that TensorFlow Serving answers strings with, as MODEL_BASE's next version.

The options of the search are fixed in the export; those not given are the work directory's. Before a version appears
it is loaded in a process of its own and has to translate as the checkpoint does; otherwise nothing is published, and
the exit code is 1. Prints the path of the new version.

With --format ctranslate2 the output is a directory for CTranslate2 instead, which must not exist.
"""

import argparse

from tf_transformer.pipelines import cli

_SEARCH = {
    "beam_size": (int, "hypotheses kept alive; 1 is greedy search"),
    "alpha": (float, "of the length penalty ((5 + length) / 6) ** alpha"),
    "max_source_length": (int, "tokens of a source; longer ones are cut and flagged"),
    "max_extra_length": (int, "tokens that an output may have more than its source"),
    "n_best": (int, "translations in the signature nbest (default: all beams)"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workdir", required=True, help="the directory that `train` wrote")
    parser.add_argument("--output", required=True, metavar="MODEL_BASE", help="gets a directory named 1, 2, 3 …")
    parser.add_argument(
        "--checkpoint", default="auto", help="auto (the average, else the best, else the latest), or a name, or a path"
    )
    for name, (kind, summary) in _SEARCH.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=summary)
    parser.add_argument(
        "--weights", default="float32", metavar="TYPE", help="float32; float16 or bfloat16 halve the files"
    )
    parser.add_argument("--format", default="saved_model", choices=("saved_model", "ctranslate2"))


def run(args: argparse.Namespace) -> int:
    search = {name: value for name in _SEARCH if (value := getattr(args, name)) is not None}
    if args.format == "ctranslate2":
        print(_export_ctranslate2(args, search))
        return 0
    from tf_transformer.export.saved_model import export_saved_model

    print(export_saved_model(args.workdir, args.output, args.checkpoint, args.weights, **search).path)
    return 0


def _export_ctranslate2(args: argparse.Namespace, search: dict):
    from tf_transformer.export.ctranslate2 import export_ctranslate2

    if search:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in search)
        raise ValueError(f"CTranslate2 takes the options of the search when it translates; leave out {flags}.")
    return export_ctranslate2(args.workdir, args.output, args.checkpoint, args.weights)


if __name__ == "__main__":
    cli.main_of("export")
