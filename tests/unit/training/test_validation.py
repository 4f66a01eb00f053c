"""The loss on the validation set, batch by batch."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from training_toys import toy_batch

from tf_transformer.training._validation import Validation


class Likelihoods:
    """Stands for the model: every token has the loss 3 and the negative log-likelihood 2."""

    def sums(self, batch):
        tokens = tf.math.count_nonzero(batch["labels"], dtype=tf.float32)
        return 3.0 * tokens, 2.0 * tokens, tokens


class Watch:
    def __init__(self):
        self.calls = []

    def __enter__(self):
        self.calls.append("in")

    def __exit__(self, *_):
        self.calls.append("out")


def test_means_are_over_tokens_and_every_batch_is_a_call_of_its_own_for_the_watch():
    watch = Watch()
    batches = [toy_batch(1), toy_batch(2, rows=5), toy_batch(3)]
    dataset = functools.reduce(
        lambda one, other: one.concatenate(other),
        [tf.data.Dataset.from_tensors(batch | {"position": np.zeros(3, np.int64)}) for batch in batches],
    )
    validation = Validation(tf.distribute.get_strategy(), Likelihoods(), lambda _: dataset.repeat(), 3, watch)
    result = validation()
    assert watch.calls == ["in", "out"] * 3
    assert validation() == result
    assert result.tokens == sum(int((batch["labels"] != 0).sum()) for batch in batches)
    assert (result.loss, result.negative_log_likelihood) == pytest.approx((3.0, 2.0))
