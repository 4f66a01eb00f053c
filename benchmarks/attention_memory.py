"""Peak memory of self-attention by length: the plain form and the blockwise one.

Each measurement is the growth of the peak resident set over one forward and backward pass, in a process of its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import time


def measure(kind: str, length: int, heads: int, depth: int, block: int) -> dict:
    """One pass in this process: growth of the peak memory in MiB and seconds."""
    import tensorflow as tf

    from tf_transformer.layers import blockwise_attention, scaled_dot_product_attention

    @tf.function
    def step(query, key, value):
        with tf.GradientTape() as tape:
            tape.watch([query, key, value])
            if kind == "plain":
                output, _ = scaled_dot_product_attention(query, key, value, causal=True)
            else:
                output = blockwise_attention(query, key, value, causal=True, block_size=block)
            loss = tf.reduce_sum(output**2)
        return tape.gradient(loss, [query, key, value])

    def inputs(size):
        return [tf.random.normal((1, heads, size, depth)) for _ in range(3)]

    step(*inputs(64))  # what tracing itself takes does not count
    tensors = inputs(length)
    concrete = step.get_concrete_function(*tensors)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    concrete(*tensors)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"mib": round((after - before) / 1024, 1), "seconds": round(seconds, 3)}


def in_own_process(kind: str, length: int, options: argparse.Namespace) -> dict:
    sizes = [str(value) for value in (length, options.heads, options.depth, options.block)]
    command = [sys.executable, "-m", "benchmarks.attention_memory", "--child", kind, *sizes]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{kind} at length {length} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192])
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--depth", type=int, default=64)
    parser.add_argument("--block", type=int, default=256)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        kind, *sizes = options.child
        print(json.dumps(measure(kind, *map(int, sizes))))
        return
    rows = {
        length: {kind: in_own_process(kind, length, options) for kind in ("plain", "blockwise")}
        for length in options.lengths
    }
    longest = rows[max(rows)]
    figures = {
        "benchmark": "attention_memory", "lengths": rows,
        "ratio_plain": round(longest["plain"]["mib"] / longest["blockwise"]["mib"], 2),
    }  # fmt: skip
    if options.json:
        print(json.dumps(figures))
        return
    print("length   plain MiB   blockwise MiB   plain s   blockwise s")
    for length, row in rows.items():
        plain, block = row["plain"], row["blockwise"]
        print(f"{length:6}   {plain['mib']:9}   {block['mib']:13}   {plain['seconds']:7}   {block['seconds']:11}")


if __name__ == "__main__":
    main()
