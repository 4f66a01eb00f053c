"""The preflight: which batches it tries, and what it says before it does."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.config import TrainingConfig
from tf_transformer.data._shapes import BatchShape
from tf_transformer.training._preflight import OutOfMemoryError, largest_shapes, preflight

ONE = tf.distribute.get_strategy()
SHORT, MIDDLE, LONG = (
    BatchShape(source=8, target=8, rows=41),
    BatchShape(source=23, target=23, rows=13),
    BatchShape(source=97, target=89, rows=3),
)


def test_the_most_tokens_and_the_most_attention_are_tried():
    assert largest_shapes([SHORT, MIDDLE, LONG]) == [SHORT, LONG]


def test_one_shape_that_is_both_is_tried_once():
    larger = BatchShape(source=97, target=89, rows=5)
    assert largest_shapes([SHORT, MIDDLE, larger]) == [larger]


def test_attention_between_source_and_target_counts():
    square, flat = BatchShape(source=10, target=10, rows=10), BatchShape(source=15, target=2, rows=10)
    assert largest_shapes([flat, square]) == [square]


@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_every_one_runs_as_padding_in_the_rows_of_a_replica(batching):
    tried = []
    config = TrainingConfig(accumulation_steps=4, batching=batching)
    preflight(lambda batches, *_: tried.append(batches.next()), ONE, [SHORT, MIDDLE, LONG], config)
    assert [tuple(batch["source"].shape) for batch in tried] == [(44, 8), (4, 97)]
    assert [tuple(batch["labels"].shape) for batch in tried] == [(44, 8), (4, 89)]
    assert [("source_segments" in batch) for batch in tried] == [batching == "pack"] * 2
    assert not any(np.any(array) for batch in tried for array in batch.values())


def test_the_size_is_logged_before_the_step_runs(caplog):
    def exhausted(*_):
        assert "Trying the largest batch, 41 rows of 8 source and 8 target tokens." in caplog.text
        raise MemoryError

    with caplog.at_level(logging.INFO), pytest.raises(OutOfMemoryError, match=r"41 rows of 8 source .* does not fit"):
        preflight(exhausted, ONE, [SHORT, MIDDLE, LONG], TrainingConfig())
