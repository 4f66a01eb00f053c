"""Train a model on a prepared directory, or resume a run.

Exit codes: 0 the run is complete; 1 it failed, with a message; 75 it was stopped by SIGTERM after saving, and the same
command resumes it; 76 another worker stopped responding; 130 it was stopped by Ctrl-C after saving.
"""

import argparse
import pathlib
import signal
import sys
from typing import TYPE_CHECKING

from tf_transformer.pipelines import cli
from tf_transformer.training import LOST_WORKER

if TYPE_CHECKING:
    from tf_transformer.config import Config

STOPPED = 75


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, metavar="DIR", help="prepared directory")
    parser.add_argument(
        "--workdir", required=True, metavar="DIR", help="work directory of the run, for checkpoints and logs"
    )
    parser.add_argument(
        "--preset", help="configuration to start from (default: that of WORKDIR, or `base` in a new one)"
    )
    parser.add_argument(
        "--init-from", metavar="DIR",
        help="start a new run from the weights of this work directory or checkpoint (fine-tuning); the data must be "
        "prepared with its tokenizer (`prepare --tokenizer DIR`)",
    )  # fmt: skip
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="SECTION.FIELD=VALUE",
        help="change a field of the configuration, such as training.max_steps=60; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--strategy", default="auto", choices=("auto", "one", "mirrored", "multi-worker", "tpu"),
        help="the devices to train on (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--replicas", type=int, metavar="N", help="devices of --strategy mirrored (default: all GPUs)")
    parser.add_argument(
        "--precision",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
        help="precision of matrix products (default: the preset's, float32)",
    )
    parser.add_argument("--xla", action="store_true", default=None, help="compile the step with XLA")
    parser.add_argument(
        "--worker-timeout", type=float, default=600.0, metavar="SECONDS",
        help="seconds after which a worker that does not respond counts as lost (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--data-service", metavar="ADDRESS",
        help="read batches from a tf.data service at this address of its dispatcher, such as grpc://host:5000",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from tf_transformer.training import LostWorkerError, train

    try:
        result = train(
            args.data,
            args.workdir,
            _config(args),
            args.strategy,
            args.replicas,
            worker_timeout=args.worker_timeout,
            data_service=args.data_service,
            init_from=args.init_from,
        )
    except LostWorkerError as error:
        print(f"tf-transformer train: {error}", file=sys.stderr)
        return LOST_WORKER
    if result.ended != "interrupted":
        return 0
    return cli.INTERRUPTED if result.signal == signal.SIGINT else STOPPED


def _config(args: argparse.Namespace) -> "Config":
    from tf_transformer.presets import get_preset
    from tf_transformer.training import config_of
    from tf_transformer.workdir import CONFIG, Workdir

    exists = (pathlib.Path(args.workdir) / CONFIG).is_file()
    if exists and args.preset is None:
        config = Workdir(args.workdir).config
    elif args.init_from:
        config = config_of(args.init_from, get_preset(args.preset) if args.preset else None)
    else:
        config = get_preset(args.preset or "base")
    settings = list(args.settings)
    if args.precision:
        settings.append(f"training.precision={args.precision}")
    if args.xla:
        settings.append("training.xla=true")
    return config.override(settings)


if __name__ == "__main__":
    cli.main_of("train")
