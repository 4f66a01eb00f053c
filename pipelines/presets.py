"""List the presets: the paper's Table 3 and the small ones, with their parameter counts."""

import argparse
import json

from tf_transformer.pipelines import cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--vocab-size", type=int, metavar="N", help="count parameters for this vocabulary (default: the preset's)"
    )
    parser.add_argument("--json", action="store_true", help="print the complete configurations as one JSON object")


def run(args: argparse.Namespace) -> int:
    from tf_transformer import presets

    if args.json:
        print(json.dumps({name: config.to_dict() for name, config in presets.PRESETS.items()}, indent=2))
    else:
        print(presets.table(args.vocab_size))
    return 0


if __name__ == "__main__":
    cli.main_of("presets")
