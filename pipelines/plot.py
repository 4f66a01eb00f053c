"""Plot learning curves: loss, perplexity, BLEU and learning rate of one or more runs, from their logs.

Two runs side by side, over hours of training:

    tf-transformer plot base rdrop --x hours --output curves.png
"""

import argparse
import json
import pathlib

from tf_transformer._files import atomic_write
from tf_transformer.pipelines import cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workdirs", nargs="+", metavar="WORKDIR", help="work directories of `train`")
    parser.add_argument("--output", default="curves.png", metavar="FILE", help="PNG, SVG or PDF (default: %(default)s)")
    parser.add_argument(
        "--x", choices=("steps", "hours", "tokens"), default="steps", help="horizontal axis (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the curves as JSON instead of drawing them")


def run(args: argparse.Namespace) -> int:
    from tf_transformer.analysis import curves_figure, read_curves

    runs = {name: read_curves(path) for name, path in zip(_names(args.workdirs), args.workdirs)}
    if args.json:
        print(json.dumps({name: [vars(curve) for curve in curves] for name, curves in runs.items()}))
        return 0
    output = pathlib.Path(args.output)
    if output.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"Expected --output to end in .png, .svg or .pdf. Received: {output}.")
    output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(output) as stream:
        curves_figure(runs, args.x).savefig(stream, dpi=150, format=output.suffix.lower()[1:])
    print(output)
    return 0


def _names(workdirs: list[str]) -> list[str]:
    """The last part of each path, or as much of it as distinguishes the runs."""
    paths = [pathlib.Path(path).resolve() for path in workdirs]
    for length in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise ValueError(f"Expected different work directories. Received: {', '.join(workdirs)}.")


if __name__ == "__main__":
    cli.main_of("plot")
