"""Everything that a run consists of at one moment, to a checkpoint and back."""

import contextlib
import dataclasses
import os
import pathlib

import numpy as np

from tf_transformer.training import checkpoints
from tf_transformer.training.adam import Adam
from tf_transformer.training.counters import Counters
from tf_transformer.training.model_weights import assign_model, assign_tensors, model_tensors, named_variables
from tf_transformer.training.moving_average import MovingAverage


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
    """

    model: object
    adam: Adam
    average: MovingAverage | None
    counters: Counters
    position: dict | None = None
    best_perplexity: float | None = None
    stale_validations: int = 0
    validated_step: int = 0

    def save(self, path: str | os.PathLike, **info) -> pathlib.Path:
        """Writes a checkpoint to go on from. With a moving average the model in it is the average."""
        training = {name: variable.numpy() for name, variable in self._variables().items()}
        with self.serving_weights():
            model = model_tensors(self.model)
        return checkpoints.save_checkpoint(
            path,
            model,
            training,
            step=self.counters.step,
            counters=self.counters._asdict(),
            position=self.position,
            best_perplexity=self.best_perplexity,
            stale_validations=self.stale_validations,
            validated_step=self.validated_step,
            **info,
        )

    def save_model(self, path: str | os.PathLike, **info) -> pathlib.Path:
        """Writes a checkpoint of the model alone."""
        with self.serving_weights():
            model = model_tensors(self.model)
        return checkpoints.save_checkpoint(path, model, step=self.counters.step, **info)

    def restore(self, path: str | os.PathLike) -> None:
        """Goes back to a checkpoint that `save` wrote, which is verified already."""
        info = checkpoints.read_info(path)
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

    def serving_weights(self):
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

    def __init__(self, variable):
        self._variable, self.shape = variable, variable.shape

    def numpy(self) -> np.ndarray:
        return np.asarray(self._variable)

    def assign(self, value: np.ndarray) -> None:
        self._variable.assign(value)
