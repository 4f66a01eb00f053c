"""The few numbers that a run counts, and how a step changes them: in the graph, and in checkpoints."""

from typing import NamedTuple

import tensorflow as tf

FIRST_LOSS_SCALE = 2.0**15
LARGEST_LOSS_SCALE = 2.0**24
STEPS_BEFORE_GROWTH = 1000


class Counters(NamedTuple):
    """Where a run stands. Values go into a step and new ones come out; nothing is a variable."""

    step: int | tf.Tensor
    """Batches that have been trained on."""
    updates: int | tf.Tensor
    """Steps that changed the weights; the others were skipped."""
    skipped: int | tf.Tensor
    """Steps whose loss or gradient was not finite."""
    skipped_in_a_row: int | tf.Tensor
    """Of these, since the last good step, and not those that a smaller loss scale was the answer to."""
    loss_scale: float | tf.Tensor
    """What float16 gradients are multiplied by so that small ones do not vanish; 1 in other precisions."""
    steps_at_scale: int | tf.Tensor
    """Good steps since the loss scale last changed."""

    @classmethod
    def start(cls, precision: str) -> "Counters":
        return cls(0, 0, 0, 0, FIRST_LOSS_SCALE if precision == "mixed_float16" else 1.0, 0)

    @classmethod
    def from_dict(cls, values: dict) -> "Counters":
        return cls(**{name: values[name] for name in cls._fields})

    def tensors(self) -> "Counters":
        kinds = Counters(tf.int64, tf.int64, tf.int64, tf.int64, tf.float32, tf.int64)
        return Counters(*(tf.constant(value, kind) for value, kind in zip(self, kinds)))

    def numbers(self) -> "Counters":
        return Counters(*(value.numpy().item() for value in self))

    def after(self, finite, empty, scaled: bool) -> "Counters":
        """The counters after a step.

        Args:
            finite: boolean scalar, whether loss and gradients were.
            empty: boolean scalar, whether the batch was padding alone: then nothing is learned or counted as bad.
            scaled: whether the loss scale is dynamic.
        """
        one, zero = tf.constant(1, tf.int64), tf.constant(0, tf.int64)
        good, bad = tf.logical_and(finite, tf.logical_not(empty)), tf.logical_not(finite)
        scale, at_scale = self._next_scale(good, bad) if scaled else (self.loss_scale, self.steps_at_scale)
        # An overflow that a smaller scale answers is how the scale is found: no sign of a run that diverges.
        hopeless = tf.logical_and(bad, self.loss_scale <= 1.0)
        in_a_row = tf.where(good, zero, self.skipped_in_a_row)
        return Counters(
            step=self.step + 1,
            updates=self.updates + tf.where(good, one, zero),
            skipped=self.skipped + tf.where(bad, one, zero),
            skipped_in_a_row=in_a_row + tf.where(hopeless, one, zero),
            loss_scale=scale,
            steps_at_scale=at_scale,
        )

    def _next_scale(self, good, bad):
        """Half after an overflow, double after many good steps."""
        at_scale = tf.where(good, self.steps_at_scale + 1, self.steps_at_scale)
        grows = at_scale >= STEPS_BEFORE_GROWTH
        larger = tf.minimum(self.loss_scale * 2.0, LARGEST_LOSS_SCALE)
        scale = tf.where(bad, tf.maximum(self.loss_scale / 2.0, 1.0), tf.where(grows, larger, self.loss_scale))
        return scale, tf.where(tf.logical_or(bad, grows), tf.zeros_like(at_scale), at_scale)
