"""The options that all peers share, and how a measurement is taken and printed."""

import argparse
import json
import statistics
import time
from collections.abc import Callable

DEFAULTS = {
    "vocab": 37000, "layers": 6, "width": 512, "heads": 8, "inner": 2048,
    "batch": 32, "source": 25, "target": 28, "beam": 4,
    "train-batch": 64, "train-length": 32, "repeat": 3, "threads": 2, "inter-threads": 1,
}  # fmt: skip


def parse() -> argparse.Namespace:
    """The sizes of the model and of the work, and what to measure (`--only decode` or `--only train`)."""
    parser = argparse.ArgumentParser()
    for name, value in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--only", choices=["decode", "train"])
    return parser.parse_args()


def report(peer: str, kind: str, tokens: int, work: Callable[[], object], options: argparse.Namespace) -> None:
    """Print tokens per second of `work`, median and best of `--repeat` calls, after one that does not count."""
    work()
    times = []
    for _ in range(options.repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    figures = {
        "peer": peer,
        "kind": kind,
        "tokens_per_second": round(tokens / statistics.median(times), 1),
        "best_tokens_per_second": round(tokens / min(times), 1),
    }
    print(json.dumps(figures), flush=True)
