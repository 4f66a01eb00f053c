"""Peak memory of the loss of one batch and its gradients: ours, a chunk of tokens at a time, and all logits at once.

    python -m benchmarks.loss_memory --tokens 4096 --vocab 37000 --json

Each way runs in a process of its own, and its peak is measured from where the weights and the hidden states are in
memory already. `logits_mib` is the size of one tensor of all logits; `ratio_plain` is the memory
of the plain way divided by ours: higher is better.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

WAYS = ("ours", "plain")
ENVIRONMENT = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}


def main() -> None:
    args = _parse()
    if args.child:
        print(json.dumps(measure(args.child, args)))
        return
    results = {way: _in_process(way, args) for way in WAYS}
    figures = {"logits_mib": round(args.tokens * args.vocab * 4 / 2**20)}
    figures |= {f"{way}_{name}": value for way in WAYS for name, value in results[way].items()}
    figures["ratio_plain"] = round(results["plain"]["mib"] / results["ours"]["mib"], 2)
    print(json.dumps(figures) if args.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--vocab", type=int, default=37000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    return parser.parse_args()


def _in_process(way: str, args: argparse.Namespace) -> dict[str, float]:
    sizes = [f"--tokens={args.tokens}", f"--vocab={args.vocab}", f"--width={args.width}"]
    command = [sys.executable, "-m", "benchmarks.loss_memory", "--child", way, *sizes]
    return json.loads(subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT).stdout)


def measure(way: str, args: argparse.Namespace) -> dict[str, float]:
    """Peak memory above that before the call, in MiB, and the seconds of the second call."""
    import tensorflow as tf

    hidden = tf.random.normal([1, args.tokens, args.width])
    table = tf.random.normal([args.vocab, args.width], stddev=0.05)
    labels = tf.random.uniform([1, args.tokens], 1, args.vocab, tf.int32)
    work = tf.function({"ours": _ours, "plain": _plain}[way])
    before = _peak()
    work(hidden, table, labels)[0].numpy()
    start = time.perf_counter()
    work(hidden, table, labels)[0].numpy()
    return {"mib": round(_peak() - before), "seconds": round(time.perf_counter() - start, 2)}


def _ours(hidden, table, labels):
    from tf_transformer.training import projected_loss

    result = projected_loss(hidden, table, labels, 1.0, label_smoothing=0.1)
    return result.sums.loss, result.hidden_gradient, result.table_gradient


def _plain(hidden, table, labels):
    """Logits, one-hot labels with smoothing, TensorFlow's cross-entropy: what one writes first."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch([hidden, table])
        logits = tf.matmul(hidden[0], table, transpose_b=True)
        size = logits.shape[-1]
        target = tf.one_hot(labels[0], size, on_value=0.9 + 0.1 / size, off_value=0.1 / size)
        loss = tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(target, logits))
    return loss, *tape.gradient(loss, [hidden, table])


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
