"""Runs of `train`: stopped in every way, and resumed with the same result."""

import contextlib
import json
import os
import shutil
import signal
import time

import numpy as np
import pytest
from toy_data import start_training, toy_config, toy_data, train_command, train_until_killed

from tf_transformer.config import Config
from tf_transformer.data._prepared import PreparedDataset
from tf_transformer.pipelines.cli import main
from tf_transformer.training import _preflight as preflight
from tf_transformer.training import _run as run
from tf_transformer.training._process import LOST_WORKER, RunLock
from tf_transformer.training._reporting import read_log
from tf_transformer.training._run import train
from tf_transformer.training._run_state import ChangedRunError
from tf_transformer.training._strategies import Worker
from tf_transformer.training._trainer import Trainer
from tf_transformer.workdir import checkpoints
from tf_transformer.workdir._workdir import Workdir


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return toy_data(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    """The work directory of a run from its first step to its last."""
    workdir = tmp_path_factory.mktemp("undisturbed") / "run"
    result = train(data, workdir, toy_config())
    assert (result.ended, result.step) == ("finished", 24)
    return Workdir(workdir)


def check_same_end(workdir, undisturbed):
    """The last checkpoints are equal bit for bit: weights, moments, counters, position, best validation."""
    ours, theirs = (checkpoints.latest_intact(run.checkpoints) for run in (Workdir(workdir), undisturbed))
    assert ours.name == theirs.name
    for load in (checkpoints.load_model_tensors, checkpoints.load_training_tensors):
        for name, tensor in load(theirs).items():
            np.testing.assert_array_equal(load(ours)[name], tensor, err_msg=name)
    left_out = ("files", "sha256")
    infos = [{k: v for k, v in checkpoints.read_info(path).items() if k not in left_out} for path in (ours, theirs)]
    assert infos[0] == infos[1]


def wait_for_checkpoint(process, workdir, step, seconds=3600):
    until = time.monotonic() + seconds
    while not (workdir / "checkpoints" / checkpoints.step_directory(step)).is_dir():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_run_leaves_all_that_is_needed(undisturbed, data):
    names = [path.name for path in checkpoints.list_checkpoints(undisturbed.checkpoints)]
    assert names == ["step-00000015", "step-00000020", "step-00000024"]
    assert checkpoints.verify_checkpoint(undisturbed.checkpoints / "best")["step"] in (10, 20, 24)
    saved = json.loads((undisturbed.path / "config.json").read_text())
    assert saved["devices"] == {"strategy": "one", "replicas": 1, "workers": 1}
    assert saved["versions"]["tensorflow"] and Config.load(undisturbed.path / "config.json") == undisturbed.config
    assert undisturbed.config.model.vocab_size == undisturbed.tokenizers.source.vocab_size
    events = read_log(undisturbed.logs)
    assert [(event["event"], event["step"]) for event in events] == [
        ("validation", 10), ("train", 20), ("validation", 20), ("train", 24), ("validation", 24),
    ]  # fmt: skip
    assert events[1]["steps"] == 20 and events[1]["tokens"] > 0 and events[1]["learning_rate"] > 0
    model = undisturbed.load_model("step-00000020")
    assert model({"source": np.array([[5, 3]]), "target": np.array([[2]])}).shape[-1] == model.config.vocab_size


def test_killed_among_its_checkpoints_it_ends_in_the_same_weights(data, undisturbed, tmp_path):
    # Some 20 operations come before the first checkpoint, and 113 are all.
    train_until_killed(data, tmp_path / "run", int(np.random.default_rng(7).integers(40, 100)))
    assert 0 < _last_step(tmp_path / "run") < 24
    assert train(data, tmp_path / "run", toy_config()).step == 24
    check_same_end(tmp_path / "run", undisturbed)
    assert not [path.name for path in (tmp_path / "run" / "checkpoints").iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_killed_at_twenty_places_it_ends_in_the_same_weights(data, tmp_path):
    """Before the first step, while it trains, and in the middle of a checkpoint, again and again."""
    longer = ("--set", "training.max_steps=600")
    for operation in np.random.default_rng(7).integers(1, 120, 20):
        train_until_killed(data, tmp_path / "run", int(operation), *longer)
    config = toy_config("training.max_steps=600")
    assert 100 < _last_step(tmp_path / "run") < 600
    assert train(data, tmp_path / "run", config).step == train(data, tmp_path / "whole", config).step == 600
    check_same_end(tmp_path / "run", Workdir(tmp_path / "whole"))


def _last_step(workdir) -> int:
    paths = checkpoints.list_checkpoints(workdir / "checkpoints")
    return int(paths[-1].name.removeprefix("step-")) if paths else 0


@pytest.mark.slow
def test_sigterm_saves_and_exits_with_its_own_code(data, undisturbed, tmp_path):
    process = start_training(data, tmp_path / "run", "--set", "training.max_steps=100000")
    wait_for_checkpoint(process, tmp_path / "run", 5)
    process.send_signal(signal.SIGTERM)
    _, messages = process.communicate(timeout=3600)
    assert process.returncode == 75, messages
    assert "Interrupted at step" in messages and "The same command resumes from here." in messages
    last = checkpoints.latest_intact(tmp_path / "run" / "checkpoints")
    # Beyond the end of the undisturbed run the two cannot be compared; a fast machine may have got there.
    if checkpoints.read_info(last)["step"] < 24:
        train(data, tmp_path / "run", toy_config())
        check_same_end(tmp_path / "run", undisturbed)


@pytest.mark.slow
def test_a_validation_that_an_interruption_came_before_is_made_up_for(data, undisturbed, tmp_path, monkeypatch):
    """Asked to stop in the very steps after which a validation is due, the run saves first."""
    train_group = Trainer._train_group

    def interrupting(trainer, stop):
        if trainer.state.counters.step == 19:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_group(trainer, stop)

    monkeypatch.setattr(Trainer, "_train_group", interrupting)
    result = train(data, tmp_path / "run", toy_config())
    assert (result.ended, result.step, result.signal) == ("interrupted", 20, signal.SIGTERM)
    monkeypatch.undo()
    train(data, tmp_path / "run", toy_config())
    check_same_end(tmp_path / "run", undisturbed)


def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(data, undisturbed, tmp_path, caplog):
    shutil.copytree(undisturbed.path, tmp_path / "run")
    newest = checkpoints.list_checkpoints(tmp_path / "run" / "checkpoints")[-1]
    with open(newest / checkpoints.TRAINING, "r+b") as stream:
        stream.truncate(100)
    assert train(data, tmp_path / "run", toy_config()).step == 24
    assert "training.safetensors: expected " in caplog.text and "Resuming from" in caplog.text
    check_same_end(tmp_path / "run", undisturbed)


def test_a_damaged_newest_checkpoint_is_not_kept_in_place_of_a_whole_one(data, undisturbed, tmp_path):
    shutil.copytree(undisturbed.path, tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    (folder / "step-00000024" / checkpoints.MODEL).write_bytes(b"")
    train(data, tmp_path / "run", toy_config("training.max_steps=21"))
    assert [path.name for path in checkpoints.list_checkpoints(folder)] == [
        "step-00000015", "step-00000020", "step-00000021",
    ]  # fmt: skip
    assert (folder / "step-00000024.aside").is_dir()


def test_a_finished_run_does_nothing_and_a_longer_one_resumes(data, undisturbed, tmp_path):
    shutil.copytree(undisturbed.path, tmp_path / "run")
    assert train(data, tmp_path / "run", toy_config()).step == 24
    result = train(data, tmp_path / "run", toy_config("training.max_steps=26", "training.bleu_steps=26"))
    assert result.step == 26
    events = read_log(tmp_path / "run" / "logs")
    assert [event["event"] for event in events if event["step"] >= 24] == [
        "train", "validation", "train", "validation", "sample",
    ]  # fmt: skip
    assert "tok:13a" in events[-1]["signature"]


@pytest.mark.slow
def test_two_replicas_run_the_whole_job(data, undisturbed, tmp_path):
    settings = ["training.max_steps=10", "training.accumulation_steps=2"]
    train(data, tmp_path / "run", toy_config(*settings, "model.dropout=0.0"), "mirrored", replicas=2)
    train(data, tmp_path / "one", toy_config(*settings, "model.dropout=0.0"))
    losses = [read_log(tmp_path / name / "logs")[-1]["loss"] for name in ("run", "one")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.slow
def test_packed_batches_train_too(data, tmp_path):
    result = train(data, tmp_path / "run", toy_config("training.batching=pack", "training.max_steps=10"))
    assert result.step == 10 and result.best_perplexity < 1000


def test_a_second_job_in_the_directory_is_rejected(data, undisturbed, capsys):
    with RunLock(undisturbed.path):
        assert main(train_command(data, undisturbed.path)[3:]) == 1
    assert "is in use: process" in capsys.readouterr().err


def test_a_changed_configuration_and_vocabulary_are_rejected_by_field(data, undisturbed, tmp_path):
    with pytest.raises(ChangedRunError, match=r"model.num_layers was 1, is 2"):
        train(data, undisturbed.path, toy_config("model.num_layers=2"))
    other = toy_data(tmp_path, vocabulary=140)
    with pytest.raises(ChangedRunError, match=r"model.vocab_size was 150, is 140|another vocabulary"):
        train(other, undisturbed.path, toy_config())


def test_a_run_that_diverges_stops_with_a_message(data, tmp_path, capsys):
    diverging = ["--set", "training.learning_rate_scale=1e30", "--set", "training.skipped_steps_limit=3"]
    assert main(train_command(data, tmp_path / "run", *diverging)[3:]) == 1
    assert "not finite in 3 steps in a row" in capsys.readouterr().err


def test_a_worker_that_is_lost_before_the_first_step_is_watched_for_and_named(data, tmp_path, monkeypatch, capsys):
    import tensorflow as tf

    within = []

    class Watch(contextlib.AbstractContextManager):
        def __init__(self, _seconds):
            pass

        def __enter__(self):
            within.append(True)

        def __exit__(self, *_):
            within.pop()

    def unreachable(_run):
        assert within
        raise tf.errors.UnavailableError(None, None, "connection rejected")

    monkeypatch.setattr(run, "worker_of", lambda _: Worker(0, 2))
    monkeypatch.setattr(run, "WorkerWatch", Watch)
    monkeypatch.setattr(run._Run, "_new_state", unreachable)
    assert main(train_command(data, tmp_path / "run")[3:]) == LOST_WORKER
    assert "A worker was lost (connection rejected)" in capsys.readouterr().err


def test_a_worker_keeps_the_configuration_it_was_given_while_the_chief_writes_it(data, undisturbed, tmp_path):
    shutil.copytree(undisturbed.path, tmp_path / "run")
    given = toy_config("training.max_steps=31")
    opened = run.open_workdir(tmp_path / "run", given, PreparedDataset(data), Worker(1, 2), {})
    assert opened.config.training.max_steps == 31
    assert Workdir(tmp_path / "run").config.training.max_steps == 24


@pytest.mark.slow
def test_early_stopping_ends_a_run_that_no_longer_improves(data, tmp_path):
    settings = ["training.learning_rate_scale=1e-9", "training.early_stopping=2", "training.validation_steps=2"]
    result = train(data, tmp_path / "run", toy_config(*settings))
    assert result.ended == "early stopping" and result.step < 24
    assert train(data, tmp_path / "run", toy_config(*settings)).step == result.step


def test_out_of_memory_shows_at_once_and_comes_with_advice(data, tmp_path, monkeypatch):
    import tensorflow as tf

    def exhausted(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr("tf_transformer.training._train_step.TrainStep.__call__", exhausted)
    with pytest.raises(preflight.OutOfMemoryError, match=r"does not fit .*training.accumulation_steps=2"):
        train(data, tmp_path / "run", toy_config())
    # Nothing was trained, so whatever the advice is, it can be followed there.
    smaller = toy_config("training.batch_tokens=200", "model.num_layers=2")
    opened = run.open_workdir(tmp_path / "run", smaller, PreparedDataset(data), Worker(0, 1), {})
    assert (opened.config.training.batch_tokens, opened.config.model.num_layers) == (200, 2)


def test_a_validation_set_with_nothing_in_it_has_no_perplexity(data, tmp_path, monkeypatch, caplog):
    import tensorflow as tf

    monkeypatch.setattr(run, "validation_dataset", lambda *_: tf.data.Dataset.range(0))
    result = train(data, tmp_path / "run", toy_config("training.max_steps=2", "training.validation_steps=1"))
    assert (result.step, result.best_perplexity) == (2, None)
    assert not (tmp_path / "run" / "checkpoints" / "best").exists()
    assert "No pair of the validation set has at most" in caplog.text


@pytest.mark.slow
def test_a_moving_average_is_saved_as_the_model_and_resumed(data, tmp_path):
    settings = ["training.ema_decay=0.9", "training.max_steps=10"]
    train(data, tmp_path / "whole", toy_config(*settings))
    train(data, tmp_path / "parts", toy_config(*settings, "training.max_steps=5"))
    train(data, tmp_path / "parts", toy_config(*settings))
    check_same_end(tmp_path / "parts", Workdir(tmp_path / "whole"))
    last = checkpoints.latest_intact(tmp_path / "whole" / "checkpoints")
    model, training = checkpoints.load_model_tensors(last), checkpoints.load_training_tensors(last)
    name = "encoder/layer_0/feed_forward/inner/kernel"
    np.testing.assert_array_equal(model[name], training[f"average/{name}"])
    assert np.abs(model[name] - training[f"weights/{name}"]).max() > 0


def test_average_writes_what_every_command_takes(undisturbed, tmp_path, capsys):
    shutil.copytree(undisturbed.path, tmp_path / "run")
    assert main(["average", "--workdir", str(tmp_path / "run"), "--last", "2"]) == 0
    assert "(steps 20, 24)" in capsys.readouterr().out
    assert Workdir(tmp_path / "run").checkpoint().name == "average"
