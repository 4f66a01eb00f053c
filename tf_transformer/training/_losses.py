"""Cross-entropy with label smoothing (section 5.4) as a Keras loss, on any backend."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tf_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Cross-entropy against (1 - s) · one-hot + s / V, averaged over the tokens that are not padding.

    For `model.compile` and `fit`. As in "Rethinking the Inception Architecture", which the paper cites, the
    smoothed part is spread over all V words, including the correct one. A batch that is only padding has loss 0.

    Args:
        label_smoothing: s, 0.1 in the paper.
        ignore_id: label that carries no loss: the padding id, or any other integer, such as -100.

    Call arguments:
        y_true: labels, (B, T) int.
        y_pred: logits, (B, T, V).
        sample_weight: optional, (B,) or (B, T).

    Example:
        >>> model.compile(optimizer, loss=LabelSmoothedCrossEntropy(0.1))
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        ignore_id: int = 0,
        name: str = "label_smoothed_cross_entropy",
        **kwargs: Any,
    ):
        if "reduction" in kwargs:
            raise ValueError(
                "LabelSmoothedCrossEntropy is always the mean over the tokens that are not padding, and expects no "
                f"reduction. Received: reduction={kwargs['reduction']!r}. Its `call` returns the loss of each token."
            )
        super().__init__(name=name, **kwargs)
        _check_smoothing(label_smoothing)
        self.label_smoothing = label_smoothing
        self.ignore_id = ignore_id

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Loss of every token, (B, T) float32, 0 on padding."""
        logits = ops.cast(y_pred, "float32")
        labels = ops.cast(y_true, "int32")
        _check_labels(labels, logits.shape[-1], self.ignore_id)
        counted = ops.not_equal(labels, self.ignore_id)
        places = ops.expand_dims(ops.where(counted, labels, 0), -1)
        chosen = ops.squeeze(ops.take_along_axis(logits, places, axis=-1), axis=-1)
        losses = ops.logsumexp(logits, axis=-1) - (1.0 - self.label_smoothing) * chosen
        if self.label_smoothing:  # otherwise a logit of -inf is allowed
            losses = losses - self.label_smoothing * ops.mean(logits, axis=-1)
        return ops.where(counted, losses, 0.0)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        losses = self.call(y_true, y_pred)
        weights = ops.cast(ops.not_equal(y_true, self.ignore_id), losses.dtype)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, losses.dtype)
            weights = weights * (sample_weight[:, None] if len(sample_weight.shape) == 1 else sample_weight)
        return ops.divide_no_nan(ops.sum(losses * weights), ops.sum(weights))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("reduction", None)
        return {**config, "label_smoothing": self.label_smoothing, "ignore_id": self.ignore_id}


def _check_smoothing(label_smoothing: float) -> None:
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"Expected label_smoothing to be at least 0 and below 1. Received: {label_smoothing!r}.")


def _check_labels(labels: Any, vocab_size: int, ignore_id: int) -> None:
    """Reject labels outside [0, V), except while tracing."""
    try:
        values = ops.convert_to_numpy(labels)
    except Exception:  # a traced or symbolic tensor has no values; each backend has its own exception
        return
    values = values[values != ignore_id]
    if values.size and (values.min() < 0 or values.max() >= vocab_size):
        raise ValueError(
            f"Expected labels from 0 to {vocab_size - 1}, or ignore_id={ignore_id}. Received: labels from "
            f"{values.min()} to {values.max()}."
        )
