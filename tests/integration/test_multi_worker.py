"""Two workers as two processes on loopback: they train together, and the loss of one ends the other."""

import contextlib
import json
import shutil
import signal
import socket
import time

import numpy as np
import pytest
from toy_data import start_training, toy_config, toy_data

from tf_transformer.training._run import train
from tf_transformer.workdir import checkpoints

pytestmark = pytest.mark.slow

SETTINGS = ("--set", "model.dropout=0.0", "--strategy", "multi-worker")
LOST_WORKER = 76


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return toy_data(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def cluster():
    """The addresses of two workers. Their ports are held until the test ends, so that no other process takes them."""
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(2):
            one = held.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind(("127.0.0.1", 0))
            ports.append(one.getsockname()[1])
        yield [f"127.0.0.1:{port}" for port in ports]


def start_worker(data, workdir, cluster, index: int, *more: str):
    """One worker, which may listen at a port that this process holds."""
    task = {"cluster": {"worker": cluster}, "task": {"type": "worker", "index": index}}
    environment = {"TF_CONFIG": json.dumps(task), "TF_GRPC_REUSE_PORT": "true"}
    return start_training(data, workdir, *SETTINGS, *more, **environment)


def start_workers(data, workdir, cluster, *more: str, second=None):
    """Two workers in one work directory, or the other one in `second`."""
    return [
        start_worker(data, place, cluster, index, *more) for index, place in enumerate((workdir, second or workdir))
    ]


def end(workers) -> None:
    for worker in workers:
        worker.kill()
        worker.communicate()


def test_two_workers_train_like_one(data, cluster, tmp_path):
    workers = start_workers(data, tmp_path / "pair", cluster, "--set", "training.max_steps=10")
    try:
        messages = [worker.communicate(timeout=3600)[1] for worker in workers]
        assert [worker.returncode for worker in workers] == [0, 0], "\n".join(messages)
    finally:
        end(workers)
    assert "2 replicas of 2 workers" in messages[0] and "step 10: validation perplexity" in messages[0]
    assert "validation perplexity" not in messages[1].replace("best validation perplexity", "")
    train(data, tmp_path / "one", toy_config("model.dropout=0.0", "training.max_steps=10"))
    pair, one = (checkpoints.latest_intact(tmp_path / name / "checkpoints") for name in ("pair", "one"))
    assert pair.name == one.name == "step-00000010"
    infos = [checkpoints.read_info(path) for path in (pair, one)]
    assert infos[0]["position"] == infos[1]["position"]
    assert infos[0]["best_perplexity"] == pytest.approx(infos[1]["best_perplexity"], rel=1e-3)
    ours, theirs = checkpoints.load_model_tensors(pair), checkpoints.load_model_tensors(one)
    # Adam makes whole steps of what is rounding in the keys' biases: there and only there the runs may differ.
    for name in ours:
        if not name.endswith("key/bias"):
            np.testing.assert_allclose(np.median(np.abs(ours[name] - theirs[name])), 0, atol=1e-4, err_msg=name)


def test_workers_that_would_resume_from_different_steps_do_not_train(data, cluster, tmp_path):
    train(data, tmp_path / "run", toy_config("model.dropout=0.0", "training.max_steps=10"))
    shutil.copytree(tmp_path / "run", tmp_path / "stale")
    shutil.rmtree(tmp_path / "stale" / "checkpoints" / "step-00000010")
    workers = start_workers(data, tmp_path / "run", cluster, second=tmp_path / "stale")
    try:
        for worker, step in zip(workers, (10, 5)):
            message = worker.communicate(timeout=3600)[1]
            assert worker.returncode == 1, message
            assert f"different steps, {step} on this worker" in " ".join(message.split())
    finally:
        end(workers)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_worker_ends_the_other_with_a_message(data, cluster, tmp_path, how):
    settings = ("--set", "training.max_steps=1000000", "--worker-timeout", "120")
    workers = start_workers(data, tmp_path / "pair", cluster, *settings)
    try:
        until = time.monotonic() + 3600
        while not (tmp_path / "pair" / "checkpoints" / "step-00000005").is_dir():
            assert all(worker.poll() is None for worker in workers), workers[0].communicate()[1]
            assert time.monotonic() < until
            time.sleep(0.1)
        workers[1].send_signal(how)
        _, messages = workers[0].communicate(timeout=3600)
        assert workers[0].returncode == LOST_WORKER, messages
        assert "A worker was lost" in messages and "the same command" in messages
    finally:
        end(workers)
    assert checkpoints.latest_intact(tmp_path / "pair" / "checkpoints") is not None


def test_a_worker_that_never_starts_does_not_keep_the_other_waiting_for_ever(data, cluster, tmp_path):
    alone = start_worker(data, tmp_path / "pair", cluster, 0, "--worker-timeout", "3")
    try:
        _, messages = alone.communicate(timeout=3600)
    finally:
        end([alone])
    assert alone.returncode == 1
    assert "Waiting for all 2 workers of TF_CONFIG, for 15 s at most." in messages and "Timeout (0:00:15)" in messages


def test_sigterm_to_one_worker_stops_both(data, cluster, tmp_path):
    workers = start_workers(data, tmp_path / "pair", cluster, "--set", "training.max_steps=1000000")
    try:
        until = time.monotonic() + 3600
        while not (tmp_path / "pair" / "checkpoints" / "step-00000005").is_dir():
            assert time.monotonic() < until
            time.sleep(0.1)
        workers[1].send_signal(signal.SIGTERM)
        messages = [worker.communicate(timeout=3600)[1] for worker in workers]
        assert [worker.returncode for worker in workers] == [75, 75], "\n".join(messages)
    finally:
        end(workers)
