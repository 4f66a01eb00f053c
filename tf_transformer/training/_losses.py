"""Cross-entropy with label smoothing (section 5.4): a Keras loss, and the sums that the training loop adds up."""

from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops


class LossSums(NamedTuple):
    """Sums over the tokens of a batch, to be divided once by the tokens of the whole update. Float32 scalars."""

    loss: tf.Tensor
    """Of the smoothed loss: what is minimised."""
    negative_log_likelihood: tf.Tensor
    """Of -log p(label), in nats: its mean's exponential is the true perplexity."""
    tokens: tf.Tensor


@keras.saving.register_keras_serializable(package="tf_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Cross-entropy against (1 - s) · one-hot + s / V, averaged over the tokens that are not padding.

    For `model.compile` and `fit`. As in "Rethinking the Inception Architecture", which the paper cites, the
    smoothed part is spread over all V words, the right one included. A batch of padding alone has the loss 0.

    Args:
        label_smoothing: s, 0.1 in the paper.
        ignore_id: the label without a loss: the padding's.

    Call arguments:
        y_true: labels, (B, T) int.
        y_pred: logits, (B, T, V).
        sample_weight: optional, broadcast to (B, T).

    Example:
        >>> model.compile(optimizer, loss=LabelSmoothedCrossEntropy(0.1))
    """

    def __init__(self, label_smoothing: float = 0.1, ignore_id: int = 0, name="label_smoothed_cross_entropy", **kwargs):
        super().__init__(name=name, **kwargs)
        _check_smoothing(label_smoothing)
        self.label_smoothing = label_smoothing
        self.ignore_id = ignore_id

    def call(self, y_true, y_pred):
        """Loss of every token, (B, T) float32, 0 on padding."""
        logits = ops.cast(y_pred, "float32")
        labels = ops.cast(y_true, "int32")
        normaliser = ops.logsumexp(logits, axis=-1)
        chosen = ops.squeeze(ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1), axis=-1)
        smooth = self.label_smoothing
        losses = normaliser - (1.0 - smooth) * chosen - smooth * ops.mean(logits, axis=-1)
        return ops.where(ops.not_equal(labels, self.ignore_id), losses, 0.0)

    def __call__(self, y_true, y_pred, sample_weight=None):
        losses = self.call(y_true, y_pred)
        weights = ops.cast(ops.not_equal(y_true, self.ignore_id), losses.dtype)
        if sample_weight is not None:
            weights = weights * ops.cast(sample_weight, losses.dtype)
        return ops.divide_no_nan(ops.sum(losses * weights), ops.sum(weights))

    def get_config(self):
        config = super().get_config()
        config.pop("reduction", None)
        return {**config, "label_smoothing": self.label_smoothing, "ignore_id": self.ignore_id}


def cross_entropy_sums(logits, labels, label_smoothing: float = 0.0, ignore_id: int = 0) -> LossSums:
    """Smoothed loss, negative log-likelihood and tokens, summed over a batch.

    The gradient is made in one pass from the logits, so that no second tensor of their size is kept for it.

    Args:
        logits: (B, T, V) or (N, V), any float type; the arithmetic is float32.
        labels: (B, T) or (N,) int; positions with `ignore_id` do not count.
        label_smoothing: share of the probability that is spread over the whole vocabulary.
    """
    _check_smoothing(label_smoothing)
    size = logits.shape[-1]
    logits = tf.reshape(logits, [-1, size])
    labels = tf.reshape(tf.cast(labels, tf.int32), [-1])
    real = tf.cast(tf.not_equal(labels, ignore_id), tf.float32)
    smoothed, likelihood = _token_losses(logits, labels, label_smoothing)
    return LossSums(
        loss=tf.reduce_sum(tf.where(real > 0, smoothed, 0.0)),
        negative_log_likelihood=tf.reduce_sum(tf.where(real > 0, likelihood, 0.0)),
        tokens=tf.reduce_sum(real),
    )


def _token_losses(logits, labels, smoothing: float):
    """Smoothed loss and negative log-likelihood, (N,) float32 each; only the first has a gradient."""

    @tf.custom_gradient
    def losses(logits):
        values = tf.cast(logits, tf.float32)
        normaliser = tf.reduce_logsumexp(values, axis=-1)
        chosen = tf.gather(values, labels, batch_dims=1)
        smoothed = normaliser - (1.0 - smoothing) * chosen - smoothing * tf.reduce_mean(values, axis=-1)

        def gradient(smoothed_gradient, _):
            return tf.cast(_logits_gradient(values, normaliser, labels, smoothing, smoothed_gradient), logits.dtype)

        return (smoothed, normaliser - chosen), gradient

    return losses(logits)


def _logits_gradient(logits, normaliser, labels, smoothing: float, scale):
    """scale · (softmax(logits) - target distribution), (N, V)."""
    size = logits.shape[-1]
    probabilities = tf.exp(logits - normaliser[:, None])
    gradient = (probabilities - smoothing / size) * scale[:, None]
    places = tf.stack([tf.range(tf.shape(labels)[0]), labels], axis=1)
    return tf.tensor_scatter_nd_add(gradient, places, -(1.0 - smoothing) * scale)


def _check_smoothing(label_smoothing: float) -> None:
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"label_smoothing must be at least 0 and below 1, not {label_smoothing!r}.")
