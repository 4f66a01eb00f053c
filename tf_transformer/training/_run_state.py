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
from tf_transformer.training._optimizer import MovingAverage, Optimizer
from tf_transformer.training._train_step import Counters
from tf_transformer.training._validation import ValidationLoss
from tf_transformer.workdir import assign_model, assign_tensors, checkpoints, model_tensors, named_variables

LARGEST_WEIGHT = 1e6
ADVICE = "In a new --workdir, try a smaller learning rate, more warmup_steps, or training.gradient_clip_norm=1."


class DivergedError(ValueError):
    """Training has diverged: its loss, gradients or weights are not finite or too large."""


class ChangedRunError(ValueError):
    """A run cannot be resumed because its configuration or data has changed."""


@dataclasses.dataclass
class RunState:
    """State of a run: weights, optimizer, counters, position in the data, and the best validation so far.

    Dropout needs no state of its own: its random numbers follow from the seed and the step.

    Attributes:
        model, optimizer, average: whose variables are saved; `average` may be None.
        counters: step, skipped steps, loss scale.
        position: position of the next batch in the data.
        best_perplexity: of the validations so far; None before the first.
        stale_validations: validations since the best one.
        validated_step: step of the last validation.
        run: fingerprint of the run, stored in its checkpoints.
    """

    model: keras.Model
    optimizer: Optimizer
    average: MovingAverage | None
    counters: Counters
    position: dict | None = None
    best_perplexity: float | None = None
    stale_validations: int = 0
    validated_step: int = 0
    run: str | None = None

    def save(self, path: str | os.PathLike, **info: Any) -> pathlib.Path:
        """Write a checkpoint to resume from. With a moving average the model in it is the average."""
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
        """Write a checkpoint of the model only."""
        return checkpoints.save_checkpoint(path, self._model_to_save(), step=self.counters.step, run=self.run, **info)

    def _model_to_save(self) -> dict[str, np.ndarray]:
        """The weights for inference; raises DivergedError if they are not finite or too large."""
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
        """Restore the state from a checkpoint that `save` wrote and that is already verified."""
        info = checkpoints.read_info(path)
        own, found = self.run, info.get("run")
        if own is not None and found is not None and own.partition("-")[0] != found.partition("-")[0]:
            raise ChangedRunError(
                f"Expected a checkpoint of this run. Received: {path}, of another run. Remove it, or use "
                "another --workdir."
            )
        self.run = info.get("run")
        assign_model(self.model, checkpoints.load_model_tensors(path), str(path))
        assign_tensors(self._variables(), checkpoints.load_training_tensors(path), str(path))
        self.counters = Counters.from_dict(info["counters"])
        self.position = info["position"]
        self.best_perplexity = info["best_perplexity"]
        self.stale_validations = info["stale_validations"]
        self.validated_step = info.get("validated_step", info["step"])

    def begin_with(self, path: str | os.PathLike) -> None:
        """Load the weights of a checkpoint; everything else keeps its initial value."""
        assign_model(self.model, checkpoints.load_model_tensors(path), str(path))
        if self.average is not None:
            self.average.restart()

    def serving_weights(self) -> contextlib.AbstractContextManager[None]:
        """A context in which the model has its weights for validation and inference."""
        return contextlib.nullcontext() if self.average is None else self.average.in_place()

    def _variables(self) -> dict:
        """Variables that only training needs; with a moving average, also the trained weights."""
        variables = self.optimizer.state()
        if self.average is not None:
            variables |= self.average.state()
            variables |= {f"weights/{name}": _Weight(v) for name, v in named_variables(self.model).items()}
        return variables


class _Weight:
    """A Keras variable with the methods `numpy` and `assign` of a `tf.Variable`."""

    def __init__(self, variable: keras.Variable):
        self._variable, self.shape = variable, variable.shape

    def numpy(self) -> np.ndarray:
        return np.asarray(self._variable)

    def assign(self, value: np.ndarray) -> None:
        self._variable.assign(value)


class RunSaver:
    """Writer of a run's checkpoints: by steps, by minutes, and the best by validation; keeps the last N.

    Args:
        directory: WORKDIR/checkpoints.
        config: training configuration: intervals, and number of checkpoints to keep.
        resumed: (step, step of the last validation) of the checkpoint that the run resumes from; None for a new run.
        writes: whether this worker writes; only the chief does.
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
        """Write a checkpoint of this step unless it exists, then remove the oldest beyond the number to keep.

        A checkpoint that was written before the validation of its step is written again after it.
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


# Settings that affect the length, speed and monitoring of a run, not its result. (Accumulation changes the random
# numbers of dropout, as the number of replicas does, but not their distribution. With the cosine schedule `max_steps`
# changes the learning rate: see `_fixed`.)
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

# Settings that later versions added. At these values a run computes what it did before, and resumes after an upgrade.
ADDED = {"training.subword_dropout": 0.0}

logger = logging.getLogger(__name__)


def has_begun(dataset_info: dict) -> bool:
    """Return whether training data is recorded in a work directory; `import` records none."""
    return "splits" in dataset_info


def run_fingerprint(config: Config, dataset_info: dict, first_weights: pathlib.Path | None) -> str:
    """Fingerprint of a run: equal for runs that compute the same, however often they are interrupted.

    Args:
        config: configuration; settings that may change during a run are ignored.
        dataset_info: `dataset.json` of the training data.
        first_weights: the checkpoint that the run starts from; None for fresh weights.
    """
    settings = {
        f"{section}.{name}": value
        for section in ("model", "training")
        for name, value in getattr(config, section).to_dict().items()
    }
    without = MAY_CHANGE | {name for name, value in ADDED.items() if settings[name] == value}
    kept = {name: value for name, value in settings.items() if name not in without}
    parts = [kept, dataset_info.get("tokenizer", {}).get("sha256"), _content(dataset_info)]
    name = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    if first_weights is None:
        return name
    return f"{name}-{checkpoints.read_info(first_weights)['files'][checkpoints.MODEL]['sha256'][:16]}"


def check_config(
    saved: Config, given: Config, workdir: str | os.PathLike, begun: bool = True, weights: bool = True
) -> None:
    """Reject changes of fields that a run cannot change; log the other changes.

    Args:
        begun: whether training has started. If not, only fields that the weights depend on are fixed.
        weights: whether there are weights; False for a run that did not reach its first checkpoint.
    """
    changes = _changes(saved, given)
    rejected = [text for field, text in changes.items() if _fixed(field, saved)]
    if not begun:
        rejected = [text for field, text in changes.items() if field.startswith("model.") and "dropout" not in field]
    if rejected and weights:
        raise ChangedRunError(
            f"{workdir} was begun with another configuration: {'; '.join(rejected)}. Use the same settings, or another "
            "--workdir."
        )
    for text in changes.values():
        logger.info("Changed since the run began: %s.", text)


def _fixed(field: str, saved: Config) -> bool:
    """Whether a change of the field would change what the run computes."""
    if field == "training.max_steps":
        return saved.training.schedule == "cosine"
    return field not in MAY_CHANGE


def check_dataset(saved: dict, given: dict, workdir: str | os.PathLike, data: str | os.PathLike) -> None:
    """Reject a vocabulary or training data that differ from those a run was started with."""
    vocabulary = [info.get("tokenizer", {}).get("sha256") for info in (saved, given)]
    if vocabulary[0] != vocabulary[1]:
        raise ChangedRunError(
            f"{workdir} was begun with another vocabulary than that of {data}: tokenizer.sha256 was {vocabulary[0]}, "
            f"is {vocabulary[1]}. Use the same data, or another --workdir."
        )
    shards = [_content(info) for info in (saved, given)]
    if has_begun(saved) and shards[0] != shards[1]:
        raise ChangedRunError(
            f"{workdir} was begun with other training data than {data} contains: splits.train differs. Use the same "
            "data, or another --workdir."
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
    """Checksums of the training shards, which identify the training data."""
    return [shard.get("sha256", shard) for shard in info.get("splits", {}).get("train", {}).get("shards", ())]
