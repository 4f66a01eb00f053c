"""Number of machines for a rate of requests: a simulation of batching and replicas, validated on this machine.

    python -m benchmarks.capacity [MODEL_BASE] [--clients 4 16 64] [--rate 100] [--p99-ms 300] [--json]
    python -m benchmarks.capacity --service 0.030 0.0015 --rate 100 --p99-ms 300

The times of the model are measured through a server that merges nothing, and the latency of merged requests through a
second one, in turn. The simulation takes the first to predict the second; `largest_error` is its largest error in
throughput and median latency. With --service nothing is measured: seconds per call and per row of another machine.
"""

import argparse
import asyncio
import json
import os
import pathlib
import random
import statistics
import tempfile
import time
from collections import defaultdict

import aiohttp

from benchmarks.serving import load, sentences, serving, write_toy
from benchmarks.serving_simulation import Server, ServiceTimes, Simulation, replicas_for

ROWS = (1, 2, 4, 8, 16, 32, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_base", nargs="?", metavar="MODEL_BASE", help="an export (default: a toy)")
    parser.add_argument("--clients", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--rounds", type=int, default=5, help="of measuring both servers")
    parser.add_argument("--seconds", type=float, default=10.0, help="of load for each number of clients and round")
    parser.add_argument("--calls", type=int, default=12, help="of each number of rows, in each round")
    parser.add_argument("--workers", type=int, default=2, help="calls of the model at the same time, as in `serve`")
    parser.add_argument("--rate", type=float, default=100.0, help="requests per second to plan for")
    parser.add_argument("--p99-ms", type=float, default=300.0, help="largest 99th percentile of the latency")
    parser.add_argument("--service", type=float, nargs=2, metavar=("CALL", "ROW"), help="seconds per call and per row")
    parser.add_argument("--input", help="file with a sentence per line to send (default: made up)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures: dict = {}
    if args.service:
        times, server = ServiceTimes.linear(*args.service), Server(workers=1)
    else:
        with tempfile.TemporaryDirectory() as directory:
            base = args.model_base or write_toy(pathlib.Path(directory) / "toy")
            times, server, figures = validate(base, sentences(args.input), args)
    machines, plan = replicas_for(times, server, args.rate, args.p99_ms)
    figures["plan"] = {"rate": args.rate, "p99_limit_ms": args.p99_ms, "machines": machines, **plan}
    print(json.dumps(figures) if args.json else table(figures))


def validate(base, texts: list[str], args: argparse.Namespace) -> tuple[ServiceTimes, Server, dict]:
    """Measure calls and load in turn; return the times, the server and how well the simulation predicts the load."""
    seconds: dict = defaultdict(list)
    requests, chance = [], random.Random(1)
    runs: dict = defaultdict(list)
    with serving(base, ["--no-batching"]) as plain, serving(base, []) as batched:
        for _ in range(args.rounds):
            asyncio.run(time_calls(plain, texts, args, chance, seconds))
            requests.append(asyncio.run(request_seconds(plain, texts, args.workers)))
            for clients in args.clients:
                runs[clients].append(asyncio.run(load(batched, texts, clients, args.seconds, 20_000)))
    times, server = ServiceTimes(seconds), Server(workers=args.workers, request_seconds=statistics.median(requests))
    compared = [_compare(times, server, clients, found) for clients, found in runs.items()]
    medians = {f"{calls}x{rows}": round(1000 * statistics.median(own), 2) for (calls, rows), own in seconds.items()}
    return times, server, {
        "model": str(base) if args.model_base else "toy",
        "cores": os.cpu_count(),
        "call_ms": medians,
        "request_ms": round(1000 * server.request_seconds, 3),
        "validation": compared,
        "largest_error": max(max(abs(each["error_throughput"]), abs(each["error_p50"])) for each in compared),
    }  # fmt: skip


def _compare(times: ServiceTimes, server: Server, clients: int, found: list[dict]) -> dict:
    measured = {name: statistics.median(run[name] for run in found)
                for name in ("requests_per_second", "p50_ms", "p95_ms", "p99_ms")}  # fmt: skip
    simulated = Simulation(times, server).closed_loop(clients, 200 * clients)
    names = {"throughput": "requests_per_second", "p50": "p50_ms", "p99": "p99_ms"}
    errors = {name: round(simulated[key] / measured[key] - 1, 3) for name, key in names.items()}
    return {"clients": clients, "measured": measured, "simulated": simulated,
            **{f"error_{name}": error for name, error in errors.items()}}  # fmt: skip


async def post(session: aiohttp.ClientSession, url: str, instances: list[str] | str, expected: int = 200) -> None:
    async with session.post(f"{url}:predict", json={"instances": instances}) as response:
        await response.read()
        if response.status != expected:
            raise SystemExit(f"expected the status {expected}. Received: {response.status}")


async def time_calls(
    url: str, texts: list[str], args: argparse.Namespace, chance: random.Random, seconds: dict
) -> None:
    """Add the times of calls of several rows, alone and with others at the same time. Each has other sentences."""
    async with aiohttp.ClientSession() as session:

        async def call(calls: int, rows: int, keep: bool = True) -> None:
            chosen = chance.choices(texts, k=rows)
            begun = time.perf_counter()
            await post(session, url, chosen)
            if keep:
                seconds[calls, rows].append(time.perf_counter() - begun)

        async def caller(calls: int, rows: int) -> None:
            for _ in range(args.calls):
                await call(calls, rows)

        for rows in ROWS:
            await call(1, rows, keep=False)
            for calls in range(1, args.workers + 1):
                await asyncio.gather(*(caller(calls, rows) for _ in range(calls)))


async def request_seconds(url: str, texts: list[str], workers: int, requests: int = 2000, clients: int = 16) -> float:
    """Seconds of a request that is rejected before it reaches the model, while all workers call the model."""
    left = requests
    async with aiohttp.ClientSession() as session:

        async def client() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await post(session, url, texts[0], expected=400)  # a text, not a list

        async def keep_busy() -> None:
            while left > 0:
                await post(session, url, texts[: ROWS[-1]])

        busy = [asyncio.create_task(keep_busy()) for _ in range(workers)]
        begun = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        seconds = (time.perf_counter() - begun) / requests
        await asyncio.gather(*busy)
        return seconds


def table(figures: dict) -> str:
    lines = []
    for each in figures.get("validation", ()):
        lines.append(f"{each['clients']} clients: error {each['error_throughput']:+.0%} of throughput, "
                     f"{each['error_p50']:+.0%} of p50, {each['error_p99']:+.0%} of p99")  # fmt: skip
        lines += [f"  {kind}: {each[kind]}" for kind in ("measured", "simulated")]
    plan = figures["plan"]
    needed = f"{plan['machines']} machines" if plan["machines"] else "no number of such machines suffices"
    return "\n".join([*lines, f"{plan['rate']} requests/s with p99 below {plan['p99_limit_ms']} ms: {needed} ({plan})"])


if __name__ == "__main__":
    main()
