"""The log-probability that a model gives to a translation."""

import tensorflow as tf

from tf_transformer.decoding.chunks import in_chunks
from tf_transformer.layers import padding_mask
from tf_transformer.model import Transformer

POSITIONS = 512
"""Positions whose logits are held at once: (512, V) instead of (B, T, V)."""


def score_ids(model: Transformer, source, target, target_lengths):
    """The sum of the log-probabilities of each row's ids, some rows at a time.

    Args:
        source: (B, S) int32, ending in END, padded.
        target: (B, T) int32, of which the first `target_lengths` (B,) count.

    Returns:
        (B,) float32.
    """
    source_lengths = tf.reduce_sum(tf.cast(source != model.config.pad_id, tf.int32), axis=1)
    rows = {"source": source, "target": target, "target_lengths": target_lengths}
    rows["lengths"] = tf.maximum(source_lengths, target_lengths)

    def scores(some, longest):
        return [_score_rows(model, some["source"][:, :longest], some["target"][:, :longest], some["target_lengths"])]

    return in_chunks(scores, rows, [tf.TensorSpec([None], tf.float32)])[0]


def _score_rows(model, source, target, target_lengths):
    start = tf.fill([tf.shape(target)[0], 1], model.config.start_id)
    inputs = tf.concat([start, target[:, :-1]], axis=1)
    mask = padding_mask(source, model.config.pad_id)
    hidden = tf.cast(model.decode_hidden(inputs, model.encode(source), mask), tf.float32)
    each = tf.reshape(_of_positions(model, hidden, target), tf.shape(target))
    counted = tf.range(tf.shape(target)[1]) < target_lengths[:, None]
    return tf.reduce_sum(tf.where(counted, each, 0.0), axis=1)


def _of_positions(model, hidden, target):
    """Log-probabilities (B * T,) of the ids, some positions at a time."""
    hidden, target = tf.reshape(hidden, [-1, model.config.model_dim]), tf.reshape(target, [-1])
    count = tf.shape(target)[0]

    def block(first, found):
        rows = slice(first, tf.minimum(first + POSITIONS, count))
        logits = model.logits(hidden[rows][None])[0]
        chosen = tf.gather(logits, target[rows], batch_dims=1)
        return first + POSITIONS, tf.concat([found, chosen - tf.reduce_logsumexp(logits, axis=-1)], axis=0)

    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    return tf.while_loop(lambda first, _: first < count, block, [0, tf.zeros([0])], shape_invariants=shapes)[1]
