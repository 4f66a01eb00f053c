"""What a hypothesis' log-probability is corrected by before hypotheses are compared."""

import tensorflow as tf


def length_penalty(length, alpha):
    """((5 + length) / 6) ** alpha of Wu et al. (2016), section 6.1 of the paper: int (…) -> float32 (…)."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def coverage_penalty(coverage, beta):
    """beta * sum over the source of log(min(attention so far, 1)): (…, S) -> (…), at most 0."""
    return beta * tf.reduce_sum(tf.math.log(tf.clip_by_value(coverage, 1e-9, 1.0)), axis=-1)
