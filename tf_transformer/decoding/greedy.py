"""Greedy search: a beam of one on its own, shorter path, which takes the best id until END."""

from typing import Any

import tensorflow as tf

from tf_transformer.decoding.continuations import best_continuations
from tf_transformer.decoding.options import GrowFunction, Hypotheses, SearchOptions, StepFunction
from tf_transformer.decoding.paths import first_paths, follow_paths


def greedy_search(
    step_fn: StepFunction,
    state: Any,
    start_ids: tf.Tensor,
    max_lengths: tf.Tensor,
    options: SearchOptions,
    grow: GrowFunction | None = None,
    prefix: tf.Tensor | None = None,
    prefix_lengths: tf.Tensor | None = None,
    source_length: tf.Tensor | None = None,
) -> Hypotheses:
    """One hypothesis a row; the arguments are those of `beam_search`. Diversity has no meaning here."""
    rows = first_paths(start_ids, max_lengths, 1, options, prefix, prefix_lengths, source_length)

    def choose(logits, index, values, history):
        log_probs, ids = best_continuations(logits, 1, index, values, history, options)
        best = tf.argmax(log_probs, axis=-1, output_type=tf.int32)
        return (tf.gather(log_probs, best, batch_dims=2), tf.gather(ids, best, batch_dims=2))

    return follow_paths(step_fn, state, rows, choose, options, grow)
