"""Average the last checkpoints of a run into WORKDIR/checkpoints/average, which the other commands then use."""

import argparse

from tf_transformer.pipelines import cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workdir", required=True, metavar="DIR", help="work directory of the run")
    parser.add_argument(
        "--last", type=int, metavar="N", help="number of checkpoints (default: training.average_last of the run)"
    )


def run(args: argparse.Namespace) -> int:
    from tf_transformer.workdir import Workdir, average_last
    from tf_transformer.workdir.checkpoints import read_info

    path = average_last(Workdir(args.workdir), args.last)
    steps = ", ".join(str(step) for step in read_info(path)["averaged_steps"])
    print(f"{path} (steps {steps})")
    return 0


if __name__ == "__main__":
    cli.main_of("average")
