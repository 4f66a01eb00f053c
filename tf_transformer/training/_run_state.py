"""The state of a run: what a checkpoint contains, when one is written, and what a resumed run may change."""

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import pathlib
import time
from typing import Any

import keras
import numpy as np

from tf_transformer.config import Config, TrainingConfig
from tf_transformer.training._optimizer import Adam, MovingAverage
from tf_transformer.training._train_step import Counters
from tf_transformer.training._validation import ValidationLoss
from tf_transformer.workdir import assign_model, assign_tensors, checkpoints, model_tensors, named_variables

LARGEST_WEIGHT = 1e6
ADVICE = "In a new --workdir, try a smaller learning rate, more warmup_steps, or training.gradient_clip_norm=1."


class DivergedError(ValueError):
    """A training whose loss, gradients or weights are no longer those of a model that learns."""


class ChangedRunError(ValueError):
    """A run that cannot be resumed because something it consists of has changed."""


@dataclasses.dataclass
class RunState:
    """Weights, optimizer, counters, the data's position, and the best validation so far.

    Dropout needs no state of its own: its random numbers follow from the seed and the step.

    Attributes:
        model, adam, average: whose variables are saved; `average` may be None.
        counters: step, skipped steps, loss scale.
        position: of the next batch, as the stream gave it.
        best_perplexity: of the validations so far; None before the first.
        stale_validations: since the best one.
        validated_step: of the last validation.
        run: the run's fingerprint, which its checkpoints carry.
    """

    model: keras.Model
    adam: Adam
    average: MovingAverage | None
    counters: Counters
    position: dict | None = None
    best_perplexity: float | None = None
    stale_validations: int = 0
    validated_step: int = 0
    run: str | None = None

    def save(self, path: str | os.PathLike, **info: Any) -> pathlib.Path:
        """Writes a checkpoint to resume from. With a moving average the model in it is the average."""
        training = {name: variable.numpy() for name, variable in self._variables().items()}
        model = self._model_to_save()
        return checkpoints.save_checkpoint(
            path,
            model,
            training,
            step=self.counters.step,
            run=self.run,
            counters=self.counters._asdict(),
            position=self.position,
            best_perplexity=self.best_perplexity,
            stale_validations=self.stale_validations,
            validated_step=self.validated_step,
            **info,
        )

    def save_model(self, path: str | os.PathLike, **info: Any) -> pathlib.Path:
        """Writes a checkpoint of the model alone."""
        return checkpoints.save_checkpoint(path, self._model_to_save(), step=self.counters.step, run=self.run, **info)

    def _model_to_save(self) -> dict[str, np.ndarray]:
        """The weights that the model is used with; DivergedError if they are not those of a model that has learned."""
        with self.serving_weights():
            model = model_tensors(self.model)
        for name, weight in model.items():
            largest = float(np.max(np.abs(weight), initial=0.0))
            if not largest <= LARGEST_WEIGHT:
                raise DivergedError(
                    f"Expected weights of at most {LARGEST_WEIGHT:g} in a checkpoint. Received: {largest:g} in {name} "
                    f"at step {self.counters.step}: the run has diverged. Earlier checkpoints are complete. {ADVICE}"
                )
        return model

    def restore(self, path: str | os.PathLike) -> None:
        """Goes back to a checkpoint that `save` wrote, which is verified already."""
        info = checkpoints.read_info(path)
        own, found = self.run, info.get("run")
        if own is not None and found is not None and own.partition("-")[0] != found.partition("-")[0]:
            raise ChangedRunError(f"{path} is a checkpoint of another run. Remove it, or train in another --workdir.")
        self.run = info.get("run")
        assign_model(self.model, checkpoints.load_model_tensors(path), str(path))
        assign_tensors(self._variables(), checkpoints.load_training_tensors(path), str(path))
        self.counters = Counters.from_dict(info["counters"])
        self.position = info["position"]
        self.best_perplexity = info["best_perplexity"]
        self.stale_validations = info["stale_validations"]
        self.validated_step = info.get("validated_step", info["step"])

    def begin_with(self, path: str | os.PathLike) -> None:
        """Takes the weights of a checkpoint of the model alone; all else stays as at the beginning of a run."""
        assign_model(self.model, checkpoints.load_model_tensors(path), str(path))
        if self.average is not None:
            self.average.restart()

    def serving_weights(self) -> contextlib.AbstractContextManager[None]:
        """A context in which the model has the weights it is validated and used with."""
        return contextlib.nullcontext() if self.average is None else self.average.in_place()

    def _variables(self) -> dict:
        """Variables that only training needs. With a moving average these are also the weights that it follows."""
        variables = self.adam.state()
        if self.average is not None:
            variables |= self.average.state()
            variables |= {f"weights/{name}": _Weight(v) for name, v in named_variables(self.model).items()}
        return variables


class _Weight:
    """A Keras variable with the two methods that a `tf.Variable` is saved and restored by."""

    def __init__(self, variable: keras.Variable):
        self._variable, self.shape = variable, variable.shape

    def numpy(self) -> np.ndarray:
        return np.asarray(self._variable)

    def assign(self, value: np.ndarray) -> None:
        self._variable.assign(value)


class RunSaver:
    """Writes the checkpoints of a run: by steps, by minutes, the best by validation, the last N kept.

    Args:
        directory: WORKDIR/checkpoints.
        config: when, and how many.
        resumed: (step, step of the last validation) of the checkpoint that the run resumes from; None at its beginning.
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


# These say how long, how fast and how watched a run is, not what it computes. (Accumulation changes dropout's draws, as
# the number of replicas does, but not what they are drawn from.)
MAY_CHANGE = frozenset(
    f"training.{field}"
    for field in (
        "max_steps",
        "accumulation_steps",
        "xla",
        "steps_per_call",
        "checkpoint_steps",
        "checkpoint_minutes",
        "keep_checkpoints",
        "average_last",
        "validation_steps",
        "bleu_steps",
        "bleu_samples",
        "early_stopping",
        "skipped_steps_limit",
    )
)

logger = logging.getLogger(__name__)


def has_begun(dataset_info: dict) -> bool:
    """Whether a work directory has seen training data. One that `import` wrote has not, until it is trained on."""
    return "splits" in dataset_info


def run_fingerprint(config: Config, dataset_info: dict, first_weights: pathlib.Path | None) -> str:
    """A name for a run: equal for runs that compute the same, however often they are interrupted.

    Args:
        config: settings that may change during a run do not count.
        dataset_info: of the training data.
        first_weights: the checkpoint that the run starts from; None for fresh weights.
    """
    settings = {
        f"{section}.{name}": value
        for section in ("model", "training")
        for name, value in getattr(config, section).to_dict().items()
    }
    kept = {name: value for name, value in settings.items() if name not in MAY_CHANGE}
    parts = [kept, dataset_info.get("tokenizer", {}).get("sha256"), _content(dataset_info)]
    name = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    if first_weights is None:
        return name
    return f"{name}-{checkpoints.read_info(first_weights)['files'][checkpoints.MODEL]['sha256'][:16]}"


def check_config(
    saved: Config, given: Config, workdir: str | os.PathLike, begun: bool = True, weights: bool = True
) -> None:
    """Rejects fields that a run cannot change; tells which others have.

    Args:
        begun: False: nothing was trained yet, so that only what the weights depend on is fixed.
        weights: False: there are no weights yet either, as where a run did not come to its first checkpoint.
    """
    changes = _changes(saved, given)
    rejected = [text for field, text in changes.items() if field not in MAY_CHANGE]
    if not begun:
        rejected = [text for field, text in changes.items() if field.startswith("model.") and "dropout" not in field]
    if rejected and weights:
        raise ChangedRunError(
            f"{workdir} was begun with another configuration: {'; '.join(rejected)}. Give the same settings as then, "
            "or another --workdir."
        )
    for text in changes.values():
        logger.info("Changed since the run began: %s.", text)


def check_dataset(saved: dict, given: dict, workdir: str | os.PathLike, data: str | os.PathLike) -> None:
    """Rejects another vocabulary and other training data than a run was begun with."""
    vocabulary = [info.get("tokenizer", {}).get("sha256") for info in (saved, given)]
    if vocabulary[0] != vocabulary[1]:
        raise ChangedRunError(
            f"{workdir} was begun with another vocabulary than that of {data}: tokenizer.sha256 was {vocabulary[0]}, "
            f"is {vocabulary[1]}. Give the data it was begun with, or another --workdir."
        )
    shards = [_content(info) for info in (saved, given)]
    if has_begun(saved) and shards[0] != shards[1]:
        raise ChangedRunError(
            f"{workdir} was begun with other training data than {data} holds: splits.train differs. Give the data it "
            "was begun with, or another --workdir."
        )


def _changes(saved: Config, given: Config) -> dict[str, str]:
    changes = {}
    for section in ("model", "training"):
        before, now = (getattr(config, section).to_dict() for config in (saved, given))
        for field in before:
            if before[field] != now[field]:
                changes[f"{section}.{field}"] = f"{section}.{field} was {before[field]!r}, is {now[field]!r}"
    return changes


def _content(info: dict) -> list:
    """What identifies the training records: the checksums of the shards."""
    return [shard.get("sha256", shard) for shard in info.get("splits", {}).get("train", {}).get("shards", ())]
