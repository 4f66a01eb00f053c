"""Train rows of the paper's Table 3, or any presets, and write the table next to the paper's numbers.

Rows are trained one after another, each in WORKDIR/<row>. Run again, the command keeps finished rows and resumes the
others. WORKDIR/table.md, .json, .png and .svg are written after each row. Exit codes are those of `train`.
With --scale the same rows are scaled down, for machines without accelerators:

    tf-transformer ablate --data data --rows base,A1,B16,E --steps 1000 --scale 0.25 --depth-scale 0.5
    tf-transformer ablate --data multi30k --rows recipe --minutes 60 --seeds 1,2,3 --averaged
"""

import argparse
import json
import signal

from tf_transformer.pipelines import cli
from tf_transformer.pipelines.train import STOPPED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, metavar="DIR", help="prepared directory")
    parser.add_argument(
        "--workdir",
        default="ablation",
        metavar="DIR",
        help="directory of the rows and the table (default: %(default)s)",
    )
    parser.add_argument(
        "--rows",
        required=True,
        metavar="NAMES",
        help="presets, such as base,A1,B16,E; `all`: every row of Table 3; "
        "`recipe`: `multi30k` with one technique changed in each row",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--steps",
        type=int,
        metavar="N",
        help="training steps per row (default: the preset's); warm-up is at most a quarter of them",
    )
    length.add_argument(
        "--minutes", type=float, metavar="X", help="minutes of training per row, for a comparison at equal cost"
    )
    parser.add_argument("--seeds", metavar="N,N", help="train each row once per seed; the table has mean and spread")
    parser.add_argument(
        "--averaged", action="store_true", help="score the average of the last checkpoints (default: the last one)"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="multiply all widths, such as 0.25 (default: 1)"
    )
    parser.add_argument(
        "--depth-scale", type=float, default=1.0, metavar="X", help="multiply the numbers of layers (default: 1)"
    )
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="SECTION.FIELD=VALUE",
        help="change a field in every row, such as training.batch_tokens=2048; repeatable",
    )  # fmt: skip
    parser.add_argument("--split", default="validation", help="split that rows are scored on (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the table as one JSON object")


def run(args: argparse.Namespace) -> int:
    from tf_transformer.analysis.ablation import Ablation, AblationOptions

    options = AblationOptions(
        args.steps, args.scale, args.depth_scale, tuple(args.settings), args.minutes, _seeds(args.seeds), args.averaged
    )
    ablation = Ablation(args.data, args.workdir, _rows(args.rows), options, args.split, args.command)
    results, interrupted = ablation.run()
    if results:
        print(json.dumps(ablation.to_dict(results), indent=2) if args.json else ablation.markdown(results))
    if interrupted is None:
        return 0
    return cli.INTERRUPTED if interrupted.signal == signal.SIGINT else STOPPED


def _rows(text: str) -> list[str]:
    from tf_transformer.presets import RECIPE, TABLE_3

    groups = {"all": TABLE_3, "recipe": RECIPE}
    if text.strip() in groups:
        return [config.preset for config in groups[text.strip()]]
    return [name.strip() for name in text.split(",") if name.strip()]


def _seeds(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    try:
        return tuple(dict.fromkeys(int(seed) for seed in text.split(",")))
    except ValueError:
        raise ValueError(f"Expected --seeds as whole numbers, such as 1,2,3. Received: {text!r}.") from None


if __name__ == "__main__":
    cli.main_of("ablate")
