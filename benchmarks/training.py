"""Speed of a training step of ours beside the peers, and beside its own matrix products, in one run.

    python -m benchmarks.peers.setup ENVS
    python -m benchmarks.training --peer-envs ENVS --json

A peer that is not installed is left out with a note. `ratio_<peer>` is our throughput divided by the peer's: higher is
better. Rounds of ours and theirs alternate, ratios are taken within a round, and the median of the rounds is reported.
The base size is 37,000 words and 64 × 32 tokens; the small one 8,000 words, 4 layers of 128, inner
width 256, 128 × 16 tokens. Figures are target tokens per second. `small_…` are those of the small size.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from benchmarks.peers import running

SIZES = {
    "base": {"vocab": 37000, "layers": 6, "width": 512, "heads": 8, "inner": 2048, "batch": 64, "length": 32},
    "small": {"vocab": 8000, "layers": 4, "width": 128, "heads": 8, "inner": 256, "batch": 128, "length": 16},
}
WAYS = ("step", "xla", "products")
ENVIRONMENT = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}


def main() -> None:
    args = _parse()
    if args.child:
        print(json.dumps(measure_ours(args.child, SIZES[args.size[0]], args.repeat)))
        return
    figures = {}
    for size in args.size:
        prefix = "" if size == "base" else f"{size}_"
        figures |= {prefix + name: value for name, value in compare(size, args).items()}
    print(json.dumps(figures) if args.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    running.add_arguments(parser)
    parser.add_argument("--size", nargs="+", choices=sorted(SIZES), default=["base", "small"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=5, help="steps a round; twice as many of the small size")
    parser.add_argument("--own", nargs="+", choices=WAYS, default=WAYS, help="what of ours to measure (default: all)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    return parser.parse_args()


def compare(size: str, args: argparse.Namespace) -> dict[str, float]:
    """Medians over the rounds: tokens per second of each, and the ratios within a round."""
    repeat = args.repeat * (2 if size == "small" else 1)
    rounds: list[dict[str, float]] = []
    for number in range(args.rounds):
        speeds = {name: _ours(name, size, repeat) for name in args.own}
        rounds.append(speeds | running.measure_peers("train", args.peer_envs, _peer_options(size, repeat)))
        told = ", ".join(f"{name} {speed:.1f}" for name, speed in rounds[-1].items())
        print(f"{size}, round {number + 1}, tokens per second: {told}", file=sys.stderr, flush=True)
    figures = {
        "tokens_per_second" if name == "step" else f"{name}_tokens_per_second": _median(rounds, name)
        for name in args.own
    }
    if "products" in args.own:
        figures["share_of_products"] = _median_ratio(rounds, "products")
    for name in [name for name in rounds[0] if name not in WAYS]:
        figures[f"{name}_tokens_per_second"] = _median(rounds, name)
        figures[f"ratio_{name}"] = _median_ratio(rounds, name)
    return figures


def _median(rounds: list[dict[str, float]], key: str) -> float:
    return round(statistics.median(speeds[key] for speeds in rounds), 1)


def _median_ratio(rounds: list[dict[str, float]], key: str) -> float:
    return round(statistics.median(speeds["step"] / speeds[key] for speeds in rounds), 3)


def _ours(what: str, size: str, repeat: int) -> float:
    """A process of its own, as each peer has one."""
    command = [sys.executable, "-m", "benchmarks.training", "--child", what, "--size", size, "--repeat", str(repeat)]
    return json.loads(subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT).stdout)


def _peer_options(size: str, repeat: int) -> dict[str, int]:
    sizes = SIZES[size]
    options = {name: sizes[name] for name in ("vocab", "layers", "width", "heads", "inner")}
    return options | {"train-batch": sizes["batch"], "train-length": sizes["length"], "repeat": repeat}


def measure_ours(what: str, size: dict[str, int], repeat: int) -> float:
    """Target tokens per second of the median of `repeat` steps, after two that do not count."""
    if what == "products":
        from benchmarks.matrix_products import all_products

        work = all_products(size)
    else:
        work = training_step(size, xla=what == "xla")
    times = []
    for _ in range(repeat + 2):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return size["batch"] * size["length"] / statistics.median(times[2:])


def training_step(size: dict[str, int], xla: bool):
    """One step of the loop that `train` runs: dropout and label smoothing 0.1, Adam, gradient norm."""
    import numpy as np
    import tensorflow as tf

    from tf_transformer.config import ModelConfig, TrainingConfig
    from tf_transformer.model import Transformer
    from tf_transformer.training import Adam, BatchGradients, Counters, DistributedBatches, NoamSchedule, TrainStep
    from tf_transformer.workdir import named_variables

    depth = size["width"] // size["heads"]
    config = TrainingConfig(xla=xla)
    model = Transformer(
        ModelConfig(
            vocab_size=size["vocab"], num_layers=size["layers"], model_dim=size["width"], key_dim=depth,
            value_dim=depth, num_heads=size["heads"], feed_forward_dim=size["inner"],
        )
    )  # fmt: skip
    adam = Adam(named_variables(model), config.beta1, config.beta2, config.epsilon)
    gradients = BatchGradients(model, config.label_smoothing, config.seed, xla=xla)
    strategy = tf.distribute.get_strategy()
    step = TrainStep(strategy, gradients, adam, None, NoamSchedule(size["width"]), config)
    random = np.random.default_rng(0)
    shape = (size["batch"], size["length"])
    batch = {name: random.integers(4, size["vocab"], shape, dtype=np.int32) for name in ("source", "target", "labels")}
    element = batch | {"position": np.zeros(3, np.int64)}
    batches = DistributedBatches(strategy, lambda *_: tf.data.Dataset.from_tensors(element).repeat())
    return lambda: step(batches, 1, Counters.start(config.precision))


if __name__ == "__main__":
    main()
