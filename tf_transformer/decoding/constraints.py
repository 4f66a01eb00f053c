"""Which ids may come next: a prefix that is forced, ids that are forbidden, n-grams that must not come twice.

Constraints decide what is produced, not what it scores: log-probabilities stay the model's own.
"""

import tensorflow as tf

from tf_transformer.decoding.options import DEAD, SearchOptions


def spare_candidates(options: SearchOptions) -> int:
    """How many of the best ids `forbid` may have to turn away."""
    return len(options.forbidden_ids) + (options.min_length > 0)


def forbid(values, ids, index, options: SearchOptions):
    """Candidates without forbidden ids, and without END before the minimum length: (B, K, M) twice -> (B, K, M)."""
    for forbidden in options.forbidden_ids:
        values = tf.where(ids == forbidden, DEAD, values)
    if options.min_length:
        values = tf.where((ids == options.end_id) & (index < options.min_length), DEAD, values)
    return values


def force_prefix(values, ids, log_probs_of, index, prefix, prefix_lengths):
    """Candidates of which only the prefix's id is left in rows whose prefix is not over.

    Args:
        values, ids: (B, K, M), the candidates' log-probabilities and ids.
        log_probs_of: (B,) ids -> (B, K), the log-probability of one id for each row.
        prefix: (B, P) int32, with `prefix_lengths` (B,) int32.
    """
    width = tf.shape(prefix)[1]
    inside = index < prefix_lengths
    padded = tf.pad(prefix, [[0, 0], [0, 1]])
    token = tf.where(inside, padded[:, tf.minimum(index, width)], 0)
    only = tf.where(tf.range(tf.shape(ids)[2]) == 0, log_probs_of(token)[..., None], DEAD)
    rows = inside[:, None, None]
    return tf.where(rows, only, values), tf.where(rows, token[:, None, None], ids)


def forbid_repeats(logits, history, index, size):
    """Logits without the ids that would end an n-gram a second time.

    Args:
        logits: (B, K, V).
        history: (B, K, C) int32, of which the first `index` ids count.
        size: n, at least 1.
    """
    shape = tf.shape(history)
    batch, beams, capacity = shape[0], shape[1], shape[2]
    padded = tf.pad(history, [[0, 0], [0, 0], [0, size]])
    last = tf.gather(padded, tf.maximum(index - size + 1, 0) + tf.range(size - 1), axis=2)
    ends = tf.range(capacity) + size - 1
    repeated = tf.broadcast_to((ends < index)[None, None], shape)
    for offset in range(size - 1):
        repeated &= padded[:, :, offset : offset + capacity] == last[:, :, offset, None]
    banned = padded[:, :, size - 1 : size - 1 + capacity]
    row, beam, _ = tf.meshgrid(tf.range(batch), tf.range(beams), tf.range(capacity), indexing="ij")
    places = tf.stack([row, beam, banned], axis=-1)
    return tf.tensor_scatter_nd_add(logits, places, tf.where(repeated, DEAD, 0.0))
