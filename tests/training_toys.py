"""A small model, small batches and what trains them, for the tests of training."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from tf_transformer.config import ModelConfig, TrainingConfig
from tf_transformer.data import Replicas
from tf_transformer.model import Transformer
from tf_transformer.training._gradients import BatchGradients
from tf_transformer.training._input import DistributedBatches
from tf_transformer.training._optimizer import MovingAverage, make_optimizer
from tf_transformer.training._schedules import NoamSchedule
from tf_transformer.training._train_step import Counters, TrainStep
from tf_transformer.workdir._weights import model_tensors, named_variables

VOCABULARY = 23
MODEL = ModelConfig(
    vocab_size=VOCABULARY, num_layers=1, model_dim=14, feed_forward_dim=19, num_heads=2, key_dim=5, value_dim=3,
    dropout=0.0,
)  # fmt: skip
TRAINING = TrainingConfig(warmup_steps=5, checkpoint_minutes=None)


def toy_batch(seed: int, rows: int = 12, source: int = 7, target: int = 5) -> dict[str, np.ndarray]:
    """A batch whose rows have very different numbers of tokens; the last rows are empty."""
    random = np.random.default_rng(seed)
    batch = {
        "source": random.integers(4, VOCABULARY, (rows, source)),
        "target": random.integers(4, VOCABULARY, (rows, target)),
        "labels": random.integers(4, VOCABULARY, (rows, target)),
    }
    batch["target"][:, 0] = 2
    for row in range(rows):
        length = 0 if row >= rows - 2 else 1 + row % target
        for name in ("target", "labels"):
            batch[name][row, length:] = 0
        batch["source"][row, min(source, length + 1) if length else 0 :] = 0
    return {name: array.astype("int32") for name, array in batch.items()}


def toy_batches(strategy, batches: list[dict[str, np.ndarray]], accumulation_steps: int = 1) -> DistributedBatches:
    """Global batches of any shapes, shared by the replicas as the input pipeline does; they repeat."""

    def dataset(context, _):
        replicas = Replicas.of(context, accumulation_steps)
        elements = [element for number, batch in enumerate(batches) for element in _shares(batch, number, replicas)]
        datasets = [tf.data.Dataset.from_tensors(element) for element in elements]
        return functools.reduce(lambda one, other: one.concatenate(other), datasets).repeat()

    return DistributedBatches(strategy or tf.distribute.get_strategy(), dataset)


def _shares(batch, number: int, replicas: Replicas):
    rows = replicas.rows(len(batch["labels"]))
    for share in range(replicas.first, replicas.first + replicas.count):
        own = {name: array[share * rows : (share + 1) * rows] for name, array in batch.items()}
        own = {name: np.pad(array, ((0, rows - len(array)), (0, 0))) for name, array in own.items()}
        yield own | {"position": np.array([0, 0, number + 1])}


class ToyTraining:
    """A model and its step, made anew with the same first weights each time.

    Args:
        strategy: None for one device.
        model, training: changes of the configurations above.
    """

    def __init__(self, strategy=None, model: dict | None = None, training: dict | None = None, seed: int = 3):
        self.training = dataclasses.replace(TRAINING, **(training or {}))
        self.strategy = strategy or tf.distribute.get_strategy()
        config = dataclasses.replace(MODEL, **(model or {}))
        with self.strategy.scope():
            self.model = Transformer(config, dtype=self.training.precision)
            self.variables = named_variables(self.model)
            self.optimizer = make_optimizer(self.training, self.variables, config.num_heads)
            decay = self.training.ema_decay
            self.average = MovingAverage(self.variables, decay) if decay else None
        self.reset(seed)
        gradients = BatchGradients(
            self.model, self.training.label_smoothing, self.training.seed, self.training.accumulation_steps,
            self.training.xla, self.training.r_drop,
        )  # fmt: skip
        schedule = NoamSchedule(config.model_dim, self.training.warmup_steps)
        self.step = TrainStep(self.strategy, gradients, self.optimizer, self.average, schedule, self.training)

    def reset(self, seed: int = 3) -> None:
        """Goes back to the first weights and counters."""
        self.counters = Counters.start(self.training.precision)
        random = np.random.default_rng(seed)
        for variable in self.variables.values():
            variable.assign(random.normal(scale=0.3, size=variable.shape))
        if self.average is not None:
            self.average.restart()

    def train(self, batches: list[dict[str, np.ndarray]]):
        """Trains on global batches in one call; the report of all steps."""
        source = toy_batches(self.strategy, batches, self.training.accumulation_steps)
        self.counters, report = self.step(source, len(batches), self.counters)
        return report

    def weights(self) -> dict[str, np.ndarray]:
        return model_tensors(self.model)
