"""When checkpoints are written, and which are kept."""

import pathlib
import time

from tf_transformer.config import TrainingConfig
from tf_transformer.training import checkpoints
from tf_transformer.training.run_state import RunState
from tf_transformer.training.validation import ValidationLoss


class RunSaver:
    """Writes the checkpoints of a run: by steps, by minutes, the best by validation, the last N kept.

    Args:
        directory: WORKDIR/checkpoints.
        config: when, and how many.
        resumed: (step, step of the last validation) of the checkpoint that the run goes on from; None at its beginning.
        writes: whether this worker does; the others only ask.
    """

    def __init__(
        self, directory: pathlib.Path, config: TrainingConfig, resumed: tuple[int, int] | None, writes: bool = True
    ):
        self._directory, self._config, self._writes = directory, config, writes
        self._saved, self._saved_at = resumed, time.monotonic()

    def save_if_due(self, state: RunState) -> None:
        steps, minutes = self._config.checkpoint_steps, self._config.checkpoint_minutes
        by_steps = steps is not None and state.counters.step > 0 and state.counters.step % steps == 0
        by_time = minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes
        if by_steps or by_time:
            self.save(state)

    def save(self, state: RunState) -> None:
        """Writes a checkpoint of this step unless there is one, then removes those that are too many.

        One that was written before the step's validation is written again after it.
        """
        step, saved = state.counters.step, (state.counters.step, state.validated_step)
        if self._writes and saved != self._saved:
            state.save(self._directory / checkpoints.step_directory(step))
            checkpoints.prune_checkpoints(self._directory, self._config.keep_checkpoints)
        self._saved, self._saved_at = saved, time.monotonic()

    def save_best(self, state: RunState, result: ValidationLoss) -> None:
        if self._writes:
            state.save_model(
                self._directory / "best",
                perplexity=result.perplexity,
                negative_log_likelihood=result.negative_log_likelihood,
            )
