"""The best next ids out of a large vocabulary, exactly, at the cost of little more than one look at each logit."""

import math

import tensorflow as tf

from tf_transformer.decoding.options import DEAD

SMALLEST_BLOCK, LARGEST_BLOCK = 32, 160
"""Logits a block. With a vocabulary that a number in this range divides, the search is spared a copy of the logits."""
SMALL = 16
"""With fewer blocks than this many times the candidates, one plain top_k is as good."""


def top_candidates(logits, count):
    """The `count` largest logits and their ids, ties by the lower id: (…, V) -> (…, count), (…, count).

    In two stages: the largest of each block, then the candidates inside the best `count` blocks. Whatever is among
    the best `count` lies in one of these blocks. They are looked at in the order of their ids, so that ties break as
    in one `top_k` over everything.
    """
    vocab_size = logits.shape[-1]
    if vocab_size is None:
        raise ValueError("The last axis of the logits, the vocabulary, must have a static size; use tf.ensure_shape.")
    size = _block_size(vocab_size, count)
    if vocab_size < max(SMALL * max(size, count), size * count):  # the latter: fewer blocks than candidates
        return tf.math.top_k(logits, min(count, vocab_size))
    blocks = _blocks(logits, size)
    _, best = tf.math.top_k(tf.reduce_max(blocks, axis=-1), count)
    best = tf.sort(best, axis=-1)
    inside = tf.gather(blocks, best, batch_dims=best.shape.rank - 1)
    flat = tf.concat([tf.shape(best)[:-1], [count * size]], axis=0)
    values, places = tf.math.top_k(tf.reshape(inside, flat), count)
    ids = tf.gather(best, places // size, batch_dims=best.shape.rank - 1) * size + places % size
    return values, ids


def _block_size(vocab_size: int, count: int) -> int:
    """The size that divides the vocabulary and makes both stages about equally long; else the latter alone."""
    balanced = min(max(round(math.sqrt(vocab_size / count)), SMALLEST_BLOCK), LARGEST_BLOCK)
    sizes = [size for size in range(SMALLEST_BLOCK, LARGEST_BLOCK + 1) if vocab_size % size == 0]
    return min(sizes, key=lambda size: abs(size - balanced), default=balanced)


def _blocks(logits, size):
    """(…, V) -> (…, ceil(V / size), size)."""
    missing = -logits.shape[-1] % size
    if missing:
        logits = tf.pad(logits, [[0, 0]] * (logits.shape.rank - 1) + [[0, missing]], constant_values=2 * DEAD)
    shape = tf.concat([tf.shape(logits)[:-1], [logits.shape[-1] // size, size]], axis=0)
    return tf.reshape(logits, shape)


def log_normalizer(logits, likely):
    """log(sum(exp(logits))), given a likely id of each row: (…, V), (…,) int32 -> (…,).

    By way of the softmax, which TensorFlow computes in one pass: the logit of an id less its log-probability.
    """
    likely = likely[..., None]
    logit = tf.gather(logits, likely, batch_dims=logits.shape.rank - 1)
    prob = tf.gather(tf.nn.softmax(logits), likely, batch_dims=logits.shape.rank - 1)
    return tf.squeeze(logit - tf.math.log(prob), axis=-1)
