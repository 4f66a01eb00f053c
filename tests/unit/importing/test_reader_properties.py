"""Properties of every reader of external bytes: any file is read, or rejected by one exception that names it."""

import random

import pytest
from fuzz.readers import NAMES, reader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.long

TRUNCATED = ["config", "dataset-info", "checkpoint-info", "checkpoint-weights", "tfrecord", "rest", "rest-gzip"]
CHECKS = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def accepts(tmp_path_factory):
    """Whether the reader of a name accepts a content. Each reader has a folder, in which every case is its file."""
    folders = {name: tmp_path_factory.mktemp(name) for name in NAMES}
    return lambda name, data: reader(name).accepts(data, folders[name])


@pytest.mark.parametrize("name", NAMES)
def test_the_files_to_start_from_are_read(accepts, name):
    assert all(accepts(name, seed) for seed in reader(name).seeds)


@pytest.mark.parametrize("name", NAMES)
@settings(CHECKS, max_examples=60)
@given(data=st.binary(max_size=400))
def test_any_bytes_are_read_or_rejected(accepts, name, data):
    accepts(name, data)


@pytest.mark.parametrize("name", NAMES)
@settings(CHECKS, max_examples=60)
@given(choose=st.randoms(use_true_random=False))
def test_changed_files_are_read_or_rejected(accepts, name, choose: random.Random):
    chosen = reader(name)
    accepts(name, chosen.change(choose.choice(chosen.seeds), choose))


@pytest.mark.parametrize("name", ["ctranslate2", "npz", "marian-bin", "shortlist", "safetensors", "zip", *TRUNCATED])
@settings(CHECKS, max_examples=40)
@given(share=st.floats(0, 1, exclude_max=True))
def test_truncated_files_are_rejected(accepts, name, share):
    seed = reader(name).seeds[0]
    assert not accepts(name, seed[: int(share * len(seed))])
