"""Run the peers' scripts in their virtual environments, from a benchmark of ours."""

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Environment, script and the peers that it measures, by kind of measurement.
SCRIPTS = {
    "decode": (
        ("torch", "ctranslate2", ("ctranslate2_float32", "ctranslate2_int8")),
        ("torch", "pytorch", ("pytorch",)),
        ("opennmt", "opennmt_tf", ("opennmt_tf",)),
    ),
    "train": (("torch", "pytorch", ("pytorch",)), ("opennmt", "opennmt_tf", ("opennmt_tf",))),
}
ENVIRONMENT = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--peer-envs`; `--peers` was the folder of the scripts before they were part of this repository."""
    parser.add_argument("--peer-envs", type=pathlib.Path, help="what benchmarks.peers.setup wrote; without it no peers")
    parser.add_argument("--here", action="store_true", help="measure the CTranslate2 of this environment")
    parser.add_argument("--peers", help=argparse.SUPPRESS)


def measure_peers(
    kind: str,
    environments: pathlib.Path | None,
    options: dict[str, int],
    only: tuple[str, ...] | None = None,
    here: bool = False,
) -> dict[str, float]:
    """Tokens per second of each installed peer, in a fresh process; others are left out with a note.

    Args:
        kind: "decode" or "train".
        environments: what `setup` wrote.
        options: flags of the scripts.
        only: scripts to run; None: all.
        here: whether CTranslate2 is taken from this environment.
    """
    speeds = {}
    for environment, script, peers in SCRIPTS[kind]:
        if only is not None and script not in only:
            continue
        python = environments and environments.absolute() / environment / "bin" / "python"
        if here and script == "ctranslate2":
            python = pathlib.Path(sys.executable)
        if not python or not python.is_file():
            print(f"{script}: not installed, left out (benchmarks.peers.setup, --peer-envs)", file=sys.stderr)
            continue
        flags = [f"--{name}={value}" for name, value in options.items()]
        command = [str(python), "-m", f"benchmarks.peers.{script}", "--only", kind, *flags]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=ENVIRONMENT)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        speeds |= {line["peer"]: line["tokens_per_second"] for line in lines if line["peer"] in peers}
    return speeds
