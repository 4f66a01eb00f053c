"""The server under load, over ten thousand requests of random shapes, and with random faults."""

import gc
import json
import pathlib
import random
import subprocess
import sys

import pytest
from running_server import hammer, running_server
from toy_saved_model import write_toy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    base = tmp_path_factory.mktemp("toy")
    write_toy(base / "1", mark="1:")
    return base


def resident_megabytes() -> float:
    """Resident memory of the process now (not its peak)."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def test_64_clients_with_two_hundred_requests_each(base):
    with running_server(base) as running:
        assert hammer(running, clients=64, requests=200, mark="1:") == []


@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_memory_is_flat_over_10000_requests_of_random_shapes(base):
    chance, sizes = random.Random(7), []
    with running_server(base) as running:
        connection = running.connect()
        for number in range(10_000):
            rows = chance.randrange(0, 70)
            signature = chance.choice(["serving_default", "nbest", "attention"])
            texts = ["x" * chance.randrange(0, 120) for _ in range(rows)]
            status, answer = connection.predict({"signature_name": signature, "instances": texts})
            assert status == 200 and len(answer["predictions"]) == rows
            if number % 1_000 == 999:
                gc.collect()
                sizes.append(resident_megabytes())
    # The allocator settles in the first thousands; after that nothing may be kept of a request.
    assert max(sizes[5:]) - sizes[4] < 25, f"megabytes after each thousand requests: {sizes}"


def test_random_faults_and_new_versions():
    """Two minutes of `python -m benchmarks.soak`, which runs for half an hour by default."""
    command = [sys.executable, "-m", "benchmarks.soak", "--minutes", "2", "--version-seconds", "15", "--json"]
    root = pathlib.Path(__file__).resolve().parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    figures = json.loads(done.stdout)
    assert figures["passed"] and done.returncode == 0, figures
    assert figures["requests"] > 0 and len(figures["versions"]) > 1 and figures["corrupt_rejected"]
