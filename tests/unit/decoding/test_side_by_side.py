"""Threads are set where nothing is set yet and nothing has been computed; and only then batches go side by side."""

import os

import pytest
import tensorflow as tf

from tf_transformer.decoding._batching import parallel_batches, use_one_thread_per_op


@pytest.fixture
def machine(monkeypatch):
    """A machine of five cores and no GPU, whose TensorFlow has computed nothing yet; its number of threads."""
    threads = {"intra": 0}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(5), raising=False)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    monkeypatch.setattr(tf.config.threading, "get_intra_op_parallelism_threads", lambda: threads["intra"])
    monkeypatch.setattr(
        tf.config.threading, "set_intra_op_parallelism_threads", lambda count: threads.update(intra=count)
    )
    return threads


def test_a_batch_a_core(machine):
    assert parallel_batches() == 1
    use_one_thread_per_op()
    assert machine["intra"] == 1 and parallel_batches() == 5


def test_what_was_set_stays(machine):
    machine["intra"] = 3
    use_one_thread_per_op()
    assert machine["intra"] == 3 and parallel_batches() == 1


def test_with_a_gpu_nothing_changes(machine, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["a GPU"])
    use_one_thread_per_op()
    assert machine["intra"] == 0 and parallel_batches() == 1


def test_once_tensorflow_has_computed_nothing_changes():
    assert int(tf.constant(1) + 1) == 2
    before = tf.config.threading.get_intra_op_parallelism_threads()
    use_one_thread_per_op()
    assert tf.config.threading.get_intra_op_parallelism_threads() == before
