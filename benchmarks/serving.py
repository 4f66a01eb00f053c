"""Latency and throughput of the local server over HTTP, with and without merging of requests.

    python -m benchmarks.serving [MODEL_BASE] [--clients 1 16 64] [--seconds 10]

The real command serves in a process of its own, on the loopback; the clients share one event loop here, each with
one connection and one sentence a request. Without MODEL_BASE a small model of the shape of a decoder is served.
"""

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import aiohttp

WORDS = ("the", "small", "house", "dog", "man", "woman", "child", "sees", "likes", "found", "green", "book", "here")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_base", nargs="?", metavar="MODEL_BASE", help="an export (default: a toy)")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each measurement")
    parser.add_argument("--requests", type=int, default=20_000, help="at most, for each measurement")
    parser.add_argument("--max-batch-size", type=int, default=64)
    parser.add_argument("--input", help="file with a sentence a line to send (default: made up)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        base = args.model_base or write_toy(pathlib.Path(directory) / "toy")
        figures = measure(base, sentences(args.input), args)
    print(json.dumps(figures) if args.json else table(figures))


def measure(base, texts: list[str], args: argparse.Namespace) -> dict:
    """Figures for both ways of serving, and the throughput of one by that of the other at the most clients."""
    options = {"batched": ["--max-batch-size", str(args.max_batch_size)], "unbatched": ["--no-batching"]}
    figures = {"model": str(base) if args.model_base else "toy", "cores": os.cpu_count(), "runs": []}
    for kind, flags in options.items():
        with serving(base, flags) as url:
            for clients in args.clients:
                run = asyncio.run(load(url, texts, clients, args.seconds, args.requests))
                figures["runs"].append({"kind": kind, "clients": clients, **run})
    most = [run["requests_per_second"] for run in figures["runs"] if run["clients"] == max(args.clients)]
    figures["ratio_unbatched"] = round(most[0] / most[1], 2)
    return figures


@contextlib.contextmanager
def serving(base, flags: list[str]) -> Iterator[str]:
    """The `serve` command while a block runs; gives the address of the model."""
    command = [sys.executable, "-m", "tf_transformer.pipelines.cli", "serve", str(base), "--port", "0", *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        found = None
        while not found:
            line = process.stderr.readline()
            if not line:
                raise SystemExit(f"the server ended with {process.wait()}")
            found = re.search(r"listening at (http://\S+)", line)
        yield found[1]
    finally:
        process.terminate()
        process.communicate()


async def load(url: str, texts: list[str], clients: int, seconds: float, requests: int) -> dict:
    """Lets clients ask one after the other, each waiting for its answer, and sums up what they saw."""
    latencies, failures, left = [], 0, requests
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=clients)) as session:

        async def ask(text: str) -> bool:
            async with session.post(f"{url}:predict", json={"instances": [text]}) as response:
                await response.read()
                return response.status == 200

        async def client(number: int, end: float) -> None:
            nonlocal failures, left
            while left > 0 and time.perf_counter() < end:
                left -= 1
                begun = time.perf_counter()
                failures += not await ask(texts[(left * 7 + number) % len(texts)])
                latencies.append(time.perf_counter() - begun)

        # The first calls are not those of a warm server.
        if not all(await asyncio.gather(*(ask(text) for text in texts[:clients]))):
            raise SystemExit(f"{url} did not answer the first requests with status 200.")
        begun = time.perf_counter()
        await asyncio.gather(*(client(number, begun + seconds) for number in range(clients)))
        taken = time.perf_counter() - begun
    cuts = statistics.quantiles(latencies, n=100, method="inclusive")
    milliseconds = {f"p{cut}_ms": round(cuts[cut - 1] * 1000, 2) for cut in (50, 95, 99)}
    rate = round(len(latencies) / taken, 1)
    return {"requests": len(latencies), "failures": failures, "requests_per_second": rate, **milliseconds}


def table(figures: dict) -> str:
    columns = ("kind", "clients", "requests_per_second", "p50_ms", "p95_ms", "p99_ms", "failures")
    rows = [columns, *([str(run[column]) for column in columns] for run in figures["runs"])]
    lines = ["  ".join(f"{cell:>19}" for cell in row) for row in rows]
    return "\n".join(
        [
            f"{figures['model']} on {figures['cores']} cores",
            *lines,
            f"batched / unbatched: {figures['ratio_unbatched']}",
        ]
    )


def sentences(path: str | None) -> list[str]:
    if path:
        return pathlib.Path(path).read_text("utf-8").splitlines()
    return [
        " ".join(WORDS[(number * step) % len(WORDS)] for step in range(1, 6 + number % 12)) for number in range(997)
    ]


def write_toy(base: pathlib.Path) -> pathlib.Path:
    """A model with a tokenizer's output and a decoder's loop of small steps, which gains from batches as one does."""
    import tensorflow as tf

    class Toy(tf.Module):
        def __init__(self):
            super().__init__()
            self.weights = tf.Variable(tf.random.stateless_normal([512, 512], [1, 2]) * 0.05)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def translate(self, text):
            words = tf.strings.to_hash_bucket_fast(tf.strings.split(text), 512)
            state = tf.reduce_mean(tf.gather(self.weights, words), axis=1)
            for _ in tf.range(200):
                state = tf.tanh(tf.matmul(state, self.weights))
            best = tf.as_string(tf.argmax(state, axis=1))
            return {"translation": tf.strings.join([text, " ", best])}

    toy = Toy()
    tf.saved_model.save(toy, str(base / "1"), signatures={"serving_default": toy.translate})
    return base


if __name__ == "__main__":
    main()
