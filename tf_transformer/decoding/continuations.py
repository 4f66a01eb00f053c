"""The best next ids of each beam that the constraints allow, with the model's own log-probabilities."""

import tensorflow as tf

from tf_transformer.decoding import constraints
from tf_transformer.decoding.candidates import log_normalizer, top_candidates
from tf_transformer.decoding.options import SearchOptions


def best_continuations(logits, count, index, values, history, options: SearchOptions):
    """At least `count` continuations of each beam, the best first except for those that are forbidden.

    Args:
        logits: (B, K, V).
        index: scalar int32, how many ids `history` (B, K, C) holds.
        values: the rows' values; "prefix" (B, P) and "prefix_lengths" (B,) are looked for in it.

    Returns:
        log-probabilities (B, K, M), DEAD where forbidden, and ids (B, K, M).
    """
    allowed = logits
    if options.no_repeat_ngram:
        allowed = constraints.forbid_repeats(logits, history, index, options.no_repeat_ngram)
    best, ids = top_candidates(allowed, count + constraints.spare_candidates(options))
    likeliest = tf.argmax(logits, -1, tf.int32) if options.no_repeat_ngram else ids[..., 0]
    normalizer = log_normalizer(logits, likeliest)
    log_probs = constraints.forbid(best - normalizer[..., None], ids, index, options)
    if "prefix" in values:

        def log_probs_of(token):
            token = tf.broadcast_to(token[:, None], tf.shape(normalizer))
            return tf.gather(logits, token, batch_dims=2) - normalizer

        log_probs, ids = constraints.force_prefix(
            log_probs, ids, log_probs_of, index, values["prefix"], values["prefix_lengths"]
        )
    return log_probs, ids
