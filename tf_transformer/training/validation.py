"""The loss on the validation set, over all replicas."""

import contextlib
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import tensorflow as tf

from tf_transformer.training.gradients import BatchGradients
from tf_transformer.training.replica_rows import Batch, own_rows, pad_rows
from tf_transformer.training.strategies import local_replicas


class ValidationLoss(NamedTuple):
    """Means over the tokens of the validation set."""

    loss: float
    """Smoothed."""
    negative_log_likelihood: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """The true one, of the subwords: what the paper's Table 3 gives."""
        return perplexity(self.negative_log_likelihood)


class Validation:
    """Goes over the validation set and gives its mean loss.

    Args:
        strategy: as in training.
        gradients: what computes the loss of a batch.
        batches: makes a new iterator over this worker's rows of the validation batches.
        watch: a context manager for calls that need all workers. Each batch is one: its limit is for a call, and
            however many batches the set has, they are no sign of a lost worker.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        gradients: BatchGradients,
        batches: Callable[[], Iterable[Batch]],
        watch: contextlib.AbstractContextManager | None = None,
    ):
        self._strategy, self._gradients, self._batches = strategy, gradients, batches
        self._watch = watch or contextlib.nullcontext()
        self._sums = tf.function(self._all_sums, reduce_retracing=True, autograph=False)

    def __call__(self) -> ValidationLoss:
        totals = [0.0, 0.0, 0.0]
        for batch in self._batches():
            batch = pad_rows(batch, local_replicas(self._strategy))
            with self._watch:
                sums = self._sums({name: tf.constant(array) for name, array in batch.items()})
                totals = [total + float(value) for total, value in zip(totals, sums)]
        loss, likelihood, tokens = totals
        return ValidationLoss(loss / max(tokens, 1.0), likelihood / max(tokens, 1.0), int(tokens))

    def _all_sums(self, batch):
        def replica_sums(batch):
            return self._gradients.sums(own_rows(batch, self._strategy))

        per_replica = self._strategy.run(replica_sums, args=(batch,))
        return [self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None) for value in per_replica]


def perplexity(negative_log_likelihood: float) -> float:
    """e to the mean negative log-likelihood; infinite rather than an error where it does not fit a float."""
    return math.exp(negative_log_likelihood) if negative_log_likelihood < 700 else math.inf
