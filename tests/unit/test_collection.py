"""Two processes collect the same tests: pytest-xdist compares the ids of its workers, and fails where they differ."""

import os
import pathlib
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
