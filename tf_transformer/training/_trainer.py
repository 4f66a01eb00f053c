"""The training loop: steps, checkpoints, validations and logs."""

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
"""Number of steps per line of the log."""

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class Trainer:
    """Training loop of a run, from its current state to its end.

    Attributes:
        config: training configuration, with the intervals.
        state: state of the run, updated in place.
        step: the compiled training step.
        batches: training batches, starting at the position of the state.
        saver: writer of checkpoints.
        reports: reports to the log and the terminal.
        validation: validation loss; None if the data has no validation set.
        sample: translates a sample and computes its BLEU, or None.
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
        """Train to the end of the run. Return the reason it ended: "finished", "early stopping" or "interrupted"."""
        self._sampled_step = self.state.counters.step
        ended = None
        while ended is None:
            ended = self._round(stop)
        self.reports.flush(self.state.counters)
        self.saver.save(self.state)
        return ended

    def _round(self, stop: StopRequest) -> str | None:
        """Run the validations and saves due at this step, then some steps. Return the reason the run ends, or None.

        A validation that an interruption prevented is run when the run is resumed: the state contains its step.
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
        """Run some steps in one call. Return whether a worker has a stop request."""
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
        """Return True at the interval and at the end of the run: the last weights may be the best."""
        return self._at(self.config.validation_steps) or self.state.counters.step >= self.config.max_steps

    def _at(self, every: int | None) -> bool:
        return every is not None and self.state.counters.step % every == 0

    def _check_finite(self) -> None:
        in_a_row = self.state.counters.skipped_in_a_row
        if in_a_row >= self.config.skipped_steps_limit:
            self.reports.flush(self.state.counters)
            raise DivergedError(
                f"Loss or gradient was not finite in {in_a_row} steps in a row, up to step {self.state.counters.step} "
                f"(training.skipped_steps_limit). Earlier checkpoints are complete. {ADVICE}"
            )

    def _validate(self) -> None:
        """Validate, and save the model if it is the best so far."""
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
