"""Time per token of our search for outputs of 28 to 448 tokens and batches of 1 to 256 sentences, and a plot.

    python -m benchmarks.decoding_curves --plot docs/pictures/decoding-curves.png --json

The model is of base size with random weights; output lengths are forced. All measurements are of one process, with one
call on all threads; the median of the rounds is reported, of which slow points have fewer. A batch of more than 64
sentences is decoded 64 at a time.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time
from typing import Any

from benchmarks.decoding import export


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[28, 56, 112, 224, 448])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16, 64, 256])
    parser.add_argument("--source", type=int, default=25)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=37000)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="no further round of a point after so long")
    parser.add_argument("--plot", help="file of the plot")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        times = measure(export(f"{folder}/model", args.beam, args.vocab, args.preset), args)
    rows = [
        {"batch": batch, "length": length, "milliseconds_per_token": round(1000 * seconds / (batch * length), 4)}
        for (batch, length), seconds in times.items()
    ]
    if args.plot:
        plot(rows, pathlib.Path(args.plot), f"{args.preset}, beam {args.beam}, {args.vocab:,} words")
    print(json.dumps({"rows": rows}) if args.json else table(rows))


def measure(directory: str, args: argparse.Namespace) -> dict[tuple[int, int], float]:
    """Median seconds of a call, by batch and length."""
    import numpy as np
    import tensorflow as tf

    decode = tf.saved_model.load(directory).signatures["serving_default"]
    random, times = np.random.RandomState(0), {}
    for batch in args.batches:
        source = tf.constant(random.randint(4, args.vocab, (batch, args.source)), tf.int32)
        for length in args.lengths:
            decode(source=source[:1], max_lengths=tf.fill([1], 2))
            seconds: list[float] = []
            while len(seconds) < args.rounds and sum(seconds) < args.seconds:
                begun = time.perf_counter()
                decode(source=source, max_lengths=tf.fill([batch], length))["ids"].numpy()
                seconds.append(time.perf_counter() - begun)
            times[batch, length] = statistics.median(seconds)
            print(f"batch {batch}, {length} tokens: {times[batch, length]:.2f} s", file=sys.stderr, flush=True)
    return times


def plot(rows: list[dict[str, Any]], path: pathlib.Path, title: str) -> None:
    """Time per token over the output length, a line per batch size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for batch in sorted({row["batch"] for row in rows}):
        own = [row for row in rows if row["batch"] == batch]
        label = f"{batch} sentence{'s' * (batch > 1)}"
        axes.plot([row["length"] for row in own], [row["milliseconds_per_token"] for row in own], "o-", label=label)
    axes.set(xscale="log", yscale="log", xlabel="tokens per output", ylabel="milliseconds per token", title=title)
    lengths = sorted({row["length"] for row in rows})
    axes.set_xticks(lengths, [str(length) for length in lengths])
    lowest, highest = axes.get_ylim()
    ticks = [factor * 10.0**power for power in range(-3, 4) for factor in (1, 2, 5)]
    shown = [tick for tick in ticks if lowest <= tick <= highest]
    axes.set_yticks(shown, [f"{tick:g}" for tick in shown])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure.savefig(path, dpi=110, bbox_inches="tight")


def table(rows: list[dict[str, Any]]) -> str:
    columns = ("batch", "length", "milliseconds_per_token")
    cells = [columns, *([row[column] for column in columns] for row in rows)]
    return "\n".join("  ".join(f"{cell:>22}" for cell in row) for row in cells)


if __name__ == "__main__":
    main()
