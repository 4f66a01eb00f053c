"""The best next ids out of a large vocabulary, exactly, at the cost of little more than one look at each logit."""

import tensorflow as tf

from tf_transformer.decoding.options import DEAD

BLOCK = 64
"""Logits a block; a step function whose V is a multiple of it spares the search a copy of the logits."""
SMALL = 16
"""With fewer blocks than this many times the candidates, one plain top_k is as good."""


def top_candidates(logits, count):
    """The `count` largest logits and their ids, ties by the lower id: (…, V) -> (…, count), (…, count).

    In two stages: the largest of each block, then the candidates inside the best `count` blocks. Whatever is among
    the best `count` lies in one of these blocks. They are looked at in the order of their ids, so that ties break as
    in one `top_k` over everything.
    """
    vocab_size = logits.shape[-1]
    if count >= vocab_size or vocab_size < SMALL * BLOCK or vocab_size < SMALL * count:
        return tf.math.top_k(logits, min(count, vocab_size))
    blocks = _blocks(logits)
    _, best = tf.math.top_k(tf.reduce_max(blocks, axis=-1), count)
    best = tf.sort(best, axis=-1)
    inside = tf.gather(blocks, best, batch_dims=best.shape.rank - 1)
    flat = tf.concat([tf.shape(best)[:-1], [count * BLOCK]], axis=0)
    values, places = tf.math.top_k(tf.reshape(inside, flat), count)
    ids = tf.gather(best, places // BLOCK, batch_dims=best.shape.rank - 1) * BLOCK + places % BLOCK
    return values, ids


def _blocks(logits):
    """(…, V) -> (…, ceil(V / BLOCK), BLOCK)."""
    missing = -logits.shape[-1] % BLOCK
    if missing:
        logits = tf.pad(logits, [[0, 0]] * (logits.shape.rank - 1) + [[0, missing]], constant_values=2 * DEAD)
    shape = tf.concat([tf.shape(logits)[:-1], [logits.shape[-1] // BLOCK, BLOCK]], axis=0)
    return tf.reshape(logits, shape)


def log_normalizer(logits, largest):
    """log(sum(exp(logits))), given the largest logit: (…, V), (…,) -> (…,)."""
    return largest + tf.math.log(tf.reduce_sum(tf.exp(logits - largest[..., None]), axis=-1))
