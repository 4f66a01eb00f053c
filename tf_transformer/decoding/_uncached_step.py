"""Step function of any causal language model, which recomputes the complete sequence at every step."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_transformer.decoding._options import Step, StepResult


class UncachedStep:
    """Step function for beam search, greedy search and sampling from a model of ids (N, T) to logits (N, T, V).

    It works with every causal model, such as a functional Keras model, and computes each sequence from its beginning at
    every step. `DecoderStep` is the faster step function of a `layers.Decoder`, with a cache.

    Args:
        model: causal: logits at t depend on the ids 0 … t only. V must be static.
        beam_size: K, that of the search.

    Example:
        step = UncachedStep(gpt, beam_size=4)
        options = SearchOptions(eos_id=3, beam_size=4)
        found = beam_search(step, step.start(batch_size), start_ids, max_lengths, options, grow=step.grow)
    """

    def __init__(self, model: Callable[[tf.Tensor], Any], beam_size: int):
        self.model = model
        self.beam_size = beam_size

    def start(self, batch_size: Any) -> tf.Tensor:
        """Create the state before the first step: the ids by slot and position (B, K, 0)."""
        return tf.zeros([batch_size, self.beam_size, 0], tf.int32)

    def grow(self, state: tf.Tensor, capacity: tf.Tensor) -> tf.Tensor:
        """The state with room for `capacity` positions."""
        return tf.pad(state, [[0, 0], [0, 0], [0, capacity - tf.shape(state)[2]]])

    def __call__(self, step: Step, state: tf.Tensor) -> StepResult:
        """Compute the logits (B, K, V) of the token after each beam, and the state with the beams' last ids."""
        batch, active, capacity = tf.unstack(tf.shape(step.ancestors))
        tokens = tf.pad(step.tokens, [[0, 0], [0, self.beam_size - active]])
        state = tf.where(tf.range(capacity) == step.index, tokens[..., None], state)
        # Beam k continues slot ancestors[b, k, t] of position t: (B, C, K) by (B, C, active).
        by_position, ancestors = (tf.transpose(x, [0, 2, 1]) for x in (state, step.ancestors))
        sequences = tf.transpose(tf.gather(by_position, ancestors, batch_dims=2), [0, 2, 1])
        sequences = tf.reshape(sequences[:, :, : step.index + 1], [batch * active, step.index + 1])
        logits = tf.cast(self.model(sequences), tf.float32)[:, -1]
        return StepResult(tf.reshape(logits, [batch, active, logits.shape[-1]]), state)
