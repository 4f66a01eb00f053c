"""Chunks of rows: all rows searched once, in their order, whatever their number and lengths."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.decoding import _batching as batching
from tf_transformer.decoding._options import Hypotheses


def lowest_ids(rows):
    """Two hypotheses per row with what the search was given, the row's lowest id and its width, and that id again."""
    source, batch = rows["source"], tf.shape(rows["source"])[0]
    ids = tf.stack([tf.reduce_min(source, axis=1), tf.fill([batch], tf.shape(source)[1])], axis=1)
    ids = tf.stack([ids, ids + 100], axis=1)[:, :, : tf.reduce_max(tf.pad(rows["max_lengths"], [[0, 1]]))]
    ones = tf.ones([batch, 2])
    return Hypotheses(ids, tf.fill([batch, 2], 2), ones, ones, ones > 0), tf.reduce_min(source, axis=1)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_every_row_is_searched_in_its_place(monkeypatch, count):
    monkeypatch.setattr(batching, "MAX_ROWS", 3)
    monkeypatch.setattr(batching, "MAX_TOKENS", 22)
    lengths = np.array([2, 11, 3, 5, 11, 2, 7][:count], np.int32)
    rows = {
        "source": tf.constant(np.arange(count * 11).reshape(count, 11), tf.int32),
        "lengths": tf.constant(lengths),
        "max_lengths": tf.fill([count], 2),
    }
    found, numbers = tf.function(lambda: batching.search_in_batches(lowest_ids, rows, beams=2), autograph=False)()
    assert found.ids.shape == (count, 2, 2 if count else 0)
    assert numbers.numpy().tolist() == [row * 11 for row in range(count)]
    if count:
        np.testing.assert_array_equal(found.ids[:, 0, 0], np.arange(count) * 11)
        np.testing.assert_array_equal(found.ids[:, 1, 0], np.arange(count) * 11 + 100)
    if count == 7:  # [11, 11], [7, 5, 3], [2, 2] by rows and tokens
        np.testing.assert_array_equal(found.ids[:, 0, 1], [2, 11, 7, 7, 11, 2, 7])
