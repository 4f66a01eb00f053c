"""Describe a SavedModel: signatures, sizes, the releases of TensorFlow Serving that load it, and problems.

It works on any SavedModel. Exit code: 0 no problems, 1 problems found, 2 not a SavedModel.
"""

import argparse
import json
import sys

from tf_transformer.pipelines import cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("saved_model", metavar="SAVED_MODEL", help="directory with saved_model.pb, as MODEL_BASE/1")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")


def run(args: argparse.Namespace) -> int:
    from tf_transformer.export.inspection import NotASavedModel, inspect_saved_model

    try:
        report = inspect_saved_model(args.saved_model)
    except NotASavedModel as error:
        print(f"tf-transformer inspect: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report.to_dict(), indent=2) if args.json else report.to_text())
    return 1 if report.problems else 0


if __name__ == "__main__":
    cli.main_of("inspect")
