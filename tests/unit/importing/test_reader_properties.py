"""Properties of every reader of external bytes: any file is read, or rejected by one exception that names it."""

import pathlib
import random
import tempfile

import pytest
from fuzz.readers import NAMES, reader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CHECKS = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def accepts(name: str, data: bytes) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return reader(name).accepts(data, pathlib.Path(folder))


@pytest.mark.parametrize("name", NAMES)
def test_the_files_to_start_from_are_read(name):
    assert all(accepts(name, seed) for seed in reader(name).seeds)


@pytest.mark.parametrize("name", NAMES)
@settings(CHECKS, max_examples=60)
@given(data=st.binary(max_size=400))
def test_any_bytes_are_read_or_rejected(name, data):
    accepts(name, data)


@pytest.mark.parametrize("name", NAMES)
@settings(CHECKS, max_examples=60)
@given(choose=st.randoms(use_true_random=False))
def test_changed_files_are_read_or_rejected(name, choose: random.Random):
    chosen = reader(name)
    accepts(name, chosen.change(choose.choice(chosen.seeds), choose))


@pytest.mark.parametrize("name", ["ctranslate2", "npz", "marian-bin", "shortlist", "safetensors", "zip"])
@settings(CHECKS, max_examples=40)
@given(share=st.floats(0, 1, exclude_max=True))
def test_truncated_files_are_rejected(name, share):
    seed = reader(name).seeds[0]
    assert not accepts(name, seed[: int(share * len(seed))])
