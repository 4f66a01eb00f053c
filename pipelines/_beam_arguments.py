"""Flags of the commands that run on this machine or on Apache Beam."""

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tf_transformer._beam import BeamJobs


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --engine and --beam-options."""
    parser.add_argument(
        "--engine",
        choices=("local", "beam"),
        default="local",
        help="this machine (default), or Apache Beam on one machine or many, for the extra `beam`",
    )
    parser.add_argument(
        "--beam-options",
        metavar="OPTIONS",
        default="",
        help="Beam's pipeline options in one word, such as 'runner=FlinkRunner flink_master=localhost:8081' "
        "(default: the direct runner in one process per worker)",
    )


def check_engine(args: argparse.Namespace, *names: str) -> None:
    """Reject flags that only --engine beam has, without it."""
    for name in names:
        if getattr(args, name) and args.engine != "beam":
            flag = name.replace("_", "-")
            raise ValueError(f"Expected --engine beam with --{flag}. Received: none. Add it, or leave out --{flag}.")


@contextlib.contextmanager
def beam_jobs(args: argparse.Namespace) -> Iterator["BeamJobs | None"]:
    """The runs of pipelines that write --output; None for this machine."""
    check_engine(args, "beam_options")
    if args.engine != "beam":
        yield None
        return
    from tf_transformer._beam import BeamJobs

    with BeamJobs.open(args.output, args.beam_options, args.workers) as jobs:
        yield jobs
