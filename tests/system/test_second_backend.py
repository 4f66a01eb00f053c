"""The layers on other Keras backends: the same contract and masks, in a process whose Keras runs on JAX or PyTorch."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_layers_run_on(backend):
    """`make test-slow` installs them; a missing one is a failure, not a reason to look away."""
    command = [sys.executable, "-m", "pytest", "-q", "tests/unit/layers/test_layer_contract.py"]
    command += ["tests/unit/layers/test_masks.py", "tests/unit/layers/test_embedding_and_position.py"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "KERAS_BACKEND": backend}, capture_output=True, text=True
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
