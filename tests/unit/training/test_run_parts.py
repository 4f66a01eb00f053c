"""The small parts of a run: distributed batches, the lock, the log, what may change, the strategies, averaging."""

import json
import os
import signal
import types

import numpy as np
import pytest
import tensorflow as tf
from training_toys import ToyTraining, toy_batch, toy_batches

from tf_transformer.config import Config, TrainingConfig
from tf_transformer.data import DataServiceError
from tf_transformer.training import _input as input_module
from tf_transformer.training import _run_state as run_state_module
from tf_transformer.training._input import DistributedBatches
from tf_transformer.training._process import RunLock, RunLockedError, StopRequest
from tf_transformer.training._reporting import RunLog, read_log
from tf_transformer.training._run_state import (
    ChangedRunError,
    DivergedError,
    RunState,
    check_config,
    check_dataset,
    run_fingerprint,
)
from tf_transformer.training._strategies import StrategyError, devices_of, make_strategy
from tf_transformer.workdir import _averaging as averaging
from tf_transformer.workdir import checkpoints
from tf_transformer.workdir.checkpoints import CheckpointError


def test_batches_come_with_the_position_after_them():
    batches = toy_batches(None, [toy_batch(seed, rows=5) for seed in range(3)])
    taken = [(batches.next(), tuple(batches.position)) for _ in range(3)]
    assert [position for _, position in taken] == [(0, 0, 1), (0, 0, 2), (0, 0, 3)]
    for seed, (batch, _) in enumerate(taken):
        assert "position" not in batch
        np.testing.assert_array_equal(batch["source"], toy_batch(seed, rows=5)["source"])


def test_settings_of_later_versions_leave_the_fingerprint_of_older_runs(monkeypatch):
    now = run_fingerprint(Config(), {}, None)
    assert run_fingerprint(Config().override(["training.subword_dropout=0.1"]), {}, None) != now
    fields = TrainingConfig.to_dict
    monkeypatch.setattr(run_state_module, "ADDED", {})
    monkeypatch.setattr(
        TrainingConfig, "to_dict", lambda self: {k: v for k, v in fields(self).items() if k != "subword_dropout"}
    )
    assert run_fingerprint(Config(), {}, None) == now


class Failing:
    """A dataset that fails after some batches, as when a data service loses a worker; opened again it continues."""

    def __init__(self, fail_after):
        self.fail_after, self.opened = fail_after, []

    def __call__(self, _, position):
        self.opened.append(position.batch)
        fails = position.batch + self.fail_after.pop(0)

        def check(number):
            tf.debugging.Assert(number < fails, [f"Expected batch {fails}."])
            return {"labels": tf.fill([2, 3], tf.cast(number, tf.int32)), "position": tf.stack([0, 0, number + 1])}

        return tf.data.Dataset.range(position.batch, 1000).map(check)


def test_a_data_service_that_loses_a_worker_is_read_again_from_the_last_position(monkeypatch, caplog):
    monkeypatch.setattr(input_module, "_PAUSE", 0.0)
    dataset = Failing([4, 0, 3, 100])
    batches = DistributedBatches(tf.distribute.get_strategy(), dataset, service="grpc://somewhere:5000")
    assert [int(batches.next()["labels"][0, 0]) for _ in range(11)] == list(range(11))
    assert dataset.opened == [0, 4, 4, 7]
    assert "Expected batch 4. Reading again from (0, 0, 4)." in caplog.text


def test_a_data_service_that_stays_away_ends_the_run_with_its_address(monkeypatch):
    clock = types.SimpleNamespace(now=0.0, monotonic=lambda: clock.now, sleep=lambda _: None)
    monkeypatch.setattr(input_module, "time", clock)
    dataset = Failing([1, 0])
    batches = DistributedBatches(tf.distribute.get_strategy(), dataset, service="grpc://somewhere:5000")
    batches.next()

    def gone(*_):
        clock.now += 400.0
        raise DataServiceError("nobody there.")

    batches._dataset = gone
    with pytest.raises(DataServiceError, match=r"grpc://somewhere:5000 within 600 s\. Received: nobody there"):
        batches.next()


def test_errors_without_a_service_are_errors():
    batches = DistributedBatches(tf.distribute.get_strategy(), Failing([0]))
    with pytest.raises(tf.errors.InvalidArgumentError):
        batches.next()


def test_a_second_lock_is_rejected_and_names_the_holder(tmp_path):
    with RunLock(tmp_path), pytest.raises(RunLockedError, match=f"process {os.getpid()} on .* is training there"):
        RunLock(tmp_path).__enter__()
    with RunLock(tmp_path):
        pass


def test_the_log_takes_back_what_came_after_the_checkpoint(tmp_path):
    log = RunLog(tmp_path)
    for step in (10, 20, 30):
        log.event("train", step, loss=1.0 / step)
    log.close()
    with open(tmp_path / "log.jsonl", "a") as stream:
        stream.write('{"event": "train", "st')
    log = RunLog(tmp_path, step=20)
    log.event("train", 25, loss=0.5)
    log.close()
    assert [event["step"] for event in read_log(tmp_path)] == [10, 20, 25]
    assert any((tmp_path / "tensorboard").iterdir())


def test_the_log_keeps_texts_with_unusual_ends_of_lines(tmp_path):
    for step in (0, 5):
        log = RunLog(tmp_path, step=step)
        log.event("sample", 5, source="one\u2028two\x85three")
        log.close()
    assert [event["source"] for event in read_log(tmp_path)] == ["one\u2028two\x85three"] * 2


def test_sigterm_is_a_request_and_the_old_handler_comes_back():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_fields_that_change_the_model_are_rejected_by_name_and_others_are_not():
    saved = Config()
    check_config(saved, saved.override(["training.max_steps=7", "decoding.beam_size=2"]), "run")
    changed = saved.override(["model.num_layers=5", "training.warmup_steps=77", "training.max_steps=7"])
    with pytest.raises(ChangedRunError) as error:
        check_config(saved, changed, "run")
    assert "model.num_layers was 6, is 5; training.warmup_steps was 4000, is 77. Use" in str(error.value)
    with pytest.raises(ChangedRunError, match=r"configuration: model.num_layers was 6, is 5. Use"):
        check_config(saved, changed, "run", begun=False)
    check_config(saved, changed, "run", begun=False, weights=False)


def test_the_end_of_a_cosine_schedule_cannot_change():
    saved = Config().override(["training.schedule=cosine"])
    with pytest.raises(ChangedRunError, match=r"training\.max_steps was 100000, is 200000"):
        check_config(saved, saved.override(["training.max_steps=200000"]), "run")


def test_another_vocabulary_and_other_records_are_rejected():
    info = {"tokenizer": {"sha256": "a"}, "splits": {"train": {"shards": [{"sha256": "x"}]}}}
    check_dataset(info, json.loads(json.dumps(info)), "run", "data")
    with pytest.raises(ChangedRunError, match=r"another vocabulary .*tokenizer.sha256 was a, is b"):
        check_dataset(info, {**info, "tokenizer": {"sha256": "b"}}, "run", "data")
    with pytest.raises(ChangedRunError, match=r"splits.train differs"):
        check_dataset(info, {**info, "splits": {"train": {"shards": [{"sha256": "y"}]}}}, "run", "data")


def test_strategies_that_cannot_be_say_why(monkeypatch):
    with pytest.raises(StrategyError, match=r"among auto, one, .* Received: 'both'"):
        make_strategy("both")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(StrategyError, match=r"Expected TF_CONFIG with a cluster .* Received: none"):
        make_strategy("multi-worker")
    monkeypatch.setenv("TF_CONFIG", "{")
    with pytest.raises(StrategyError, match="TF_CONFIG to be a JSON object"):
        make_strategy("auto")


@pytest.mark.parametrize(
    ("name", "replicas", "message"),
    [
        ("auto", 2, r"strategy 'auto', which is 'one' here\. Use --strategy mirrored"),
        ("one", 2, "Received: 2 replicas with the strategy 'one'"),
        ("multi-worker", 2, "with the strategy 'multi-worker'"),
        ("mirrored", 0, "at least 1 replica. Received: 0"),
    ],
)
def test_replicas_that_would_be_ignored_are_rejected(monkeypatch, name, replicas, message):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(StrategyError, match=message):
        make_strategy(name, replicas)


def test_auto_is_one_device_here(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert make_strategy("auto").num_replicas_in_sync == 1


def test_a_run_records_what_it_is_trained_on():
    assert devices_of(make_strategy("one")) == {"strategy": "one", "replicas": 1, "workers": 1}
    assert devices_of(make_strategy("mirrored", 2)) == {"strategy": "mirrored", "replicas": 2, "workers": 1}


def save(directory, step, weights):
    return checkpoints.save_checkpoint(directory / checkpoints.step_directory(step), weights, step=step)


def test_the_average_is_the_mean_of_the_models(tmp_path):
    paths = [save(tmp_path, step, {"w": np.full((2, 3), step, "float32")}) for step in (1, 2, 6)]
    path = averaging.average_checkpoints(paths, tmp_path / "average")
    np.testing.assert_array_equal(checkpoints.load_model_tensors(path)["w"], np.full((2, 3), 3.0))
    info = checkpoints.verify_checkpoint(path)
    assert (info["step"], info["averaged_steps"]) == (6, [1, 2, 6])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"w": np.full((2, 3), np.nan, "float32")}, "NaN or infinity in w"),
        ({"w": np.zeros((3, 2), "float32")}, "one model.*in which w differs"),
        ({"v": np.zeros((2, 3), "float32")}, "one model.*in which v differs"),
    ],
)
def test_the_average_rejects_what_does_not_belong(tmp_path, weights, message):
    paths = [save(tmp_path, 1, {"w": np.ones((2, 3), "float32")}), save(tmp_path, 2, weights)]
    with pytest.raises(CheckpointError, match=message):
        averaging.average_checkpoints(paths, tmp_path / "average")
    assert not (tmp_path / "average").exists()


def test_the_average_rejects_a_checkpoint_of_another_run(tmp_path):
    weights = {"w": np.ones((2, 3), "float32")}
    paths = [
        checkpoints.save_checkpoint(tmp_path / checkpoints.step_directory(step), weights, step=step, run=run)
        for step, run in ((1, "a"), (2, "b"))
    ]
    with pytest.raises(CheckpointError, match=r"step-00000002, of another run than .*step-00000001"):
        averaging.average_checkpoints(paths, tmp_path / "average")


def test_the_average_rejects_a_damaged_one(tmp_path):
    path = save(tmp_path, 1, {"w": np.ones((2, 3), "float32")})
    (path / checkpoints.MODEL).write_bytes(b"")
    with pytest.raises(CheckpointError, match="it is damaged"):
        averaging.average_checkpoints([path], tmp_path / "average")


@pytest.mark.parametrize(("steps", "averaged"), [((0, 4, 6), [4, 6]), ((0,), [0])])
def test_what_was_imported_is_not_averaged_with_what_was_trained(tmp_path, steps, averaged):
    workdir = types.SimpleNamespace(path=tmp_path, checkpoints=tmp_path, config=Config())
    for step in steps:
        save(tmp_path, step, {"w": np.full((2, 3), step, "float32")})
    assert checkpoints.read_info(averaging.average_last(workdir, 3))["averaged_steps"] == averaged


def test_the_average_clears_up_after_one_that_was_killed(tmp_path):
    workdir = types.SimpleNamespace(path=tmp_path, checkpoints=tmp_path, config=Config())
    save(tmp_path, 4, {"w": np.ones((2, 3), "float32")})
    (tmp_path / ".average.writing-12345").mkdir()
    averaging.average_last(workdir, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["average", "step-00000004"]


def test_a_missing_tpu_is_an_error_of_one_line(monkeypatch):
    monkeypatch.setenv("TPU_NAME", "local")
    with pytest.raises(StrategyError, match=r"Expected a TPU called 'local'.*Received: none.*another --strategy") as it:
        make_strategy("tpu")
    assert "\n" not in str(it.value)


@pytest.mark.parametrize("value", [1e35, float("nan")])
def test_weights_that_have_exploded_are_not_saved(tmp_path, value):
    toy = ToyTraining()
    state = RunState(toy.model, toy.optimizer, None, toy.counters)
    state.save(tmp_path / "step-00000001")
    name, variable = next(iter(toy.variables.items()))
    variable.assign(np.full(variable.shape, value))
    with pytest.raises(DivergedError, match=rf"in {name} at step 0: the run has diverged"):
        state.save(tmp_path / "step-00000002")
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
