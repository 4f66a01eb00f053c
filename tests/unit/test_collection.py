"""Two processes collect the same tests: pytest-xdist compares the ids of its workers, and fails where they differ."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

ROOT = pathlib.Path(__file__).parents[2]


def collect(hash_seed: int, time_zone: str) -> list[str]:
    """Ids of all tests, collected by a process of its own; none is run."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**ours, "PYTHONHASHSEED": str(hash_seed), "TZ": time_zone},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_two_collections_yield_the_same_ids_in_the_same_order():
    # One after the other, so that the clock of the second is seconds later.
    first = collect(1, "UTC")
    second = collect(2, "Asia/Kathmandu")
    assert "tests/unit/test_collection.py::test_two_collections_yield_the_same_ids_in_the_same_order" in first
    assert len(set(first)) == len(first)
    assert sorted(set(first) ^ set(second)) == []
    assert first == second


def test_make_test_runs_every_file():
    """The runs of `make test` name files by patterns, which a new file has to match."""
    recipe = re.search(r"^test:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    patterns = re.findall(r"tests/[^\s)]+", recipe[1])
    run = [path for pattern in patterns for path in ROOT.glob(pattern)]
    files = [file for path in run for file in (path.rglob("test_*.py") if path.is_dir() else [path])]
    assert sorted(files) == sorted((ROOT / "tests").rglob("test_*.py"))
