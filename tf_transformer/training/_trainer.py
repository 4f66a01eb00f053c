"""The training loop: batches in, checkpoints, validations and logs out."""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable

from tf_transformer.config import TrainingConfig
from tf_transformer.training._input import DistributedBatches
from tf_transformer.training._process import StopRequest
from tf_transformer.training._reporting import RunReports
from tf_transformer.training._run_state import ADVICE, DivergedError, RunSaver, RunState
from tf_transformer.training._train_step import TrainStep
from tf_transformer.training._validation import Validation

LOG_STEPS = 20
"""Steps that one line of the log is about."""

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class Trainer:
    """One run from where its state is to its end.

    Attributes:
        config: when to do what.
        state: is changed.
        step: the compiled training step.
        batches: from the state's position on.
        saver: of checkpoints.
        reports: to the log and the terminal.
        validation: None where the data has no validation set.
        sample: BLEU of a sample, or None.
        watch: a context manager for steps, which need all workers; a validation has it too.
    """

    config: TrainingConfig
    state: RunState
    step: TrainStep
    batches: DistributedBatches
    saver: RunSaver
    reports: RunReports
    validation: Validation | None = None
    sample: Callable | None = None
    watch: contextlib.AbstractContextManager = dataclasses.field(default_factory=contextlib.nullcontext)

    def run(self, stop: StopRequest) -> str:
        """Trains until the end. Returns why it ended: "finished", "early stopping" or "interrupted"."""
        self._sampled_step = self.state.counters.step
        ended = None
        while ended is None:
            ended = self._round(stop)
        self.reports.flush(self.state.counters)
        self.saver.save(self.state)
        return ended

    def _round(self, stop: StopRequest) -> str | None:
        """What is due at this step, then some steps. Returns why the run ends here, or None.

        A validation that an interruption came before is made up for when the run goes on: it is part of its state.
        """
        step = self.state.counters.step
        if self._validation_is_due() and self.state.validated_step != step:
            self._validate()
        if self._at(self.config.bleu_steps) and self._sampled_step != step:
            self._translate_sample()
        if self.config.early_stopping is not None and self.state.stale_validations >= self.config.early_stopping:
            return "early stopping"
        if step >= self.config.max_steps:
            return "finished"
        self.saver.save_if_due(self.state)
        return "interrupted" if self._train_group(stop) else None

    def _train_group(self, stop: StopRequest) -> bool:
        """Some steps in one call. Returns whether a worker was asked to stop."""
        before = self.state.counters
        count = self._steps_to_next_event(before.step)
        begun = time.monotonic()
        with self.watch:
            self.state.counters, report = self.step(self.batches, count, before, stop.requested)
        self.state.position = self.batches.position._asdict()
        self.reports.steps(self.state.counters, report, time.monotonic() - begun)
        if self._at(LOG_STEPS) or self.state.counters.step == self.config.max_steps:
            self.reports.flush(self.state.counters)
        self._check_finite()
        return bool(report.stops.max() > 0)

    def _steps_to_next_event(self, step: int) -> int:
        events = [LOG_STEPS, self.config.validation_steps, self.config.bleu_steps, self.config.checkpoint_steps]
        distances = [every - step % every for every in events if every]
        return min(self.config.steps_per_call, self.config.max_steps - step, *distances)

    def _validation_is_due(self) -> bool:
        """Every so many steps, and at the end: the last weights may be the best."""
        return self._at(self.config.validation_steps) or self.state.counters.step >= self.config.max_steps

    def _at(self, every: int | None) -> bool:
        return every is not None and self.state.counters.step % every == 0

    def _check_finite(self) -> None:
        in_a_row = self.state.counters.skipped_in_a_row
        if in_a_row >= self.config.skipped_steps_limit:
            self.reports.flush(self.state.counters)
            raise DivergedError(
                f"Loss or gradient was not finite in {in_a_row} steps in a row, up to step {self.state.counters.step} "
                f"(training.skipped_steps_limit). The checkpoints from before are complete. {ADVICE}"
            )

    def _validate(self) -> None:
        """Validates, and keeps the model if it is the best so far."""
        if self.validation is None:
            return
        with self.state.serving_weights():
            result = self.validation()
        better = self.state.best_perplexity is None or result.perplexity < self.state.best_perplexity
        self.reports.validation(self.state.counters.step, result, better)
        self.state.validated_step = self.state.counters.step
        if better:
            self.state.best_perplexity, self.state.stale_validations = result.perplexity, 0
            self.saver.save_best(self.state, result)
        elif self._at(self.config.validation_steps):
            # Early stopping counts validations that are equally far apart; the one at the end is not.
            self.state.stale_validations += 1

    def _translate_sample(self) -> None:
        if self.sample is None:
            return
        with self.state.serving_weights():
            score, rows = self.sample()
        self._sampled_step = self.state.counters.step
        self.reports.sample(self.state.counters.step, score, rows)
