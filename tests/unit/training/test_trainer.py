"""The training loop with a step that computes nothing: what it logs, validates and saves, and when."""

import dataclasses

import numpy as np
import pytest
from training_toys import TRAINING

from tf_transformer.data import Position
from tf_transformer.training._process import StopRequest
from tf_transformer.training._reporting import RunLog, RunReports, read_log
from tf_transformer.training._run_state import RunSaver, RunState
from tf_transformer.training._train_step import Counters, StepReport
from tf_transformer.training._trainer import DivergedError, Trainer
from tf_transformer.training._validation import ValidationLoss


class Batches:
    position = Position()


class Saver:
    def __init__(self):
        self.saved, self.best = [], []

    def save(self, state):
        self.saved.append((state.counters.step, state.validated_step))

    def save_if_due(self, state):
        pass

    def save_best(self, state, _result):
        self.best.append(state.counters.step)


class Step:
    """Counts; asks to stop at `stop_at`, is not finite from `bad_from` on."""

    def __init__(self, stop_at=None, bad_from=None):
        self._stop_at, self._bad_from = stop_at, bad_from

    def __call__(self, _batches, count, counters, _stop):
        steps = np.arange(counters.step, counters.step + count) + 1
        bad = np.array([self._bad_from is not None and step >= self._bad_from for step in steps])
        ones = np.ones(len(steps), "float32")
        report = StepReport(3.0 * ones, 2.0 * ones, ones, ones, ones, bad.astype("float32"), steps == self._stop_at)
        in_a_row = counters.skipped_in_a_row + int(bad.sum())
        return counters._replace(step=int(steps[-1]), skipped_in_a_row=in_a_row), report


class Validation:
    """Perplexities that are given in advance."""

    def __init__(self, *likelihoods: float):
        self._left = list(likelihoods)

    def __call__(self) -> ValidationLoss:
        return ValidationLoss(1.0, self._left.pop(0), 7)


class ToyRun:
    """A trainer of these parts, from step 0 on; `events` are what is in its log."""

    def __init__(self, folder, step=None, validation=None, **config):
        config = {"max_steps": 13, "steps_per_call": 1, "validation_steps": 5, **config}
        self.folder, self.saver = folder, Saver()
        self.state = RunState(None, None, None, Counters.start("float32"))
        self.trainer = Trainer(
            dataclasses.replace(TRAINING, **config), self.state, step or Step(), Batches(), self.saver,
            RunReports(RunLog(folder), Quiet()), validation,
        )  # fmt: skip

    def run(self) -> str:
        return self.trainer.run(StopRequest())

    def events(self, kind: str) -> list[tuple]:
        return [(event["step"], event.get("steps")) for event in read_log(self.folder) if event["event"] == kind]


class Quiet:
    done = 0

    def update(self, *_):
        pass

    write = update


def test_the_steps_before_an_interruption_are_in_the_log(tmp_path):
    run = ToyRun(tmp_path, Step(stop_at=3))
    assert run.run() == "interrupted"
    assert run.events("train") == [(3, 3)]


def test_the_steps_before_early_stopping_are_in_the_log(tmp_path):
    run = ToyRun(tmp_path, validation=Validation(1.0, 2.0), early_stopping=1)
    assert run.run() == "early stopping"
    assert run.events("train") == [(10, 10)]


def test_the_steps_before_a_divergence_are_in_the_log(tmp_path):
    run = ToyRun(tmp_path, Step(bad_from=5), skipped_steps_limit=3)
    with pytest.raises(DivergedError, match="3 steps in a row, up to step 7"):
        run.run()
    assert run.events("train") == [(7, 7)]


def test_no_step_is_in_the_log_twice(tmp_path):
    run = ToyRun(tmp_path, max_steps=23)
    assert run.run() == "finished"
    assert run.events("train") == [(20, 20), (23, 3)]


def test_the_last_weights_are_validated_once(tmp_path):
    run = ToyRun(tmp_path, validation=Validation(3.0, 2.0, 1.0))
    assert run.run() == "finished"
    assert [step for step, _ in run.events("validation")] == run.saver.best == [5, 10, 13]
    assert run.saver.saved == [(13, 13)]
    assert run.run() == "finished"
    assert len(run.events("validation")) == 3


def test_a_last_step_that_is_validated_anyway_is_validated_once(tmp_path):
    run = ToyRun(tmp_path, validation=Validation(3.0, 2.0), max_steps=10)
    assert run.run() == "finished"
    assert [step for step, _ in run.events("validation")] == [5, 10]


def test_the_validation_at_the_end_does_not_count_for_early_stopping(tmp_path):
    run = ToyRun(tmp_path, validation=Validation(1.0, 2.0, 2.0), early_stopping=2)
    assert run.run() == "finished"
    assert run.state.stale_validations == 1


def test_a_checkpoint_from_before_its_validation_is_written_again(tmp_path, monkeypatch):
    state, written = RunState(None, None, None, Counters.start("float32")._replace(step=10)), []
    monkeypatch.setattr(RunState, "save", lambda state, path: written.append((path.name, state.validated_step)))
    saver = RunSaver(tmp_path, dataclasses.replace(TRAINING, checkpoint_steps=5), (10, 0))
    saver.save(state)
    assert written == []
    state.validated_step = 10
    saver.save(state)
    saver.save(state)
    assert written == [("step-00000010", 10)]
