"""Position-wise feed-forward network (section 3.3): max(0, x W1 + b1) W2 + b2."""

from typing import Any

import keras

from tf_transformer.layers._arguments import check_rates, check_sizes
from tf_transformer.layers._dropout import Dropout
from tf_transformer.layers._projection import Projection, new_initializer


@keras.saving.register_keras_serializable(package="tf_transformer")
class FeedForward(keras.layers.Layer):
    """Two projections with an activation between them, applied at every position. Masks pass through.

    Args:
        feed_forward_dim: width between the two projections (d_ff).
        activation: name or callable, "relu" in the paper. A callable is serialized if it is registered with Keras.
        dropout: rate after the activation; the paper states none.
        kernel_initializer: initializer of both kernels.
        bias_initializer: initializer of both biases.

    Call arguments:
        inputs: (B, T, D).
        training: whether dropout is active.

    Returns:
        (B, T, D).

    Example:
        >>> FeedForward(2048)(keras.ops.ones((2, 5, 512))).shape
        TensorShape([2, 5, 512])
    """

    def __init__(
        self,
        feed_forward_dim: int,
        activation: Any = "relu",
        dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_sizes("FeedForward", feed_forward_dim=feed_forward_dim)
        check_rates("FeedForward", dropout=dropout)
        self.feed_forward_dim = feed_forward_dim
        self.activation = keras.activations.get(activation)
        self.dropout = dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_masking = True

    def build(self, input_shape: tuple) -> None:
        self.inner = self._new_projection("inner", self.feed_forward_dim, input_shape)
        self.outer = self._new_projection("outer", input_shape[-1], (*input_shape[:-1], self.feed_forward_dim))
        self._dropout = Dropout(self.dropout, dtype=self.dtype_policy, name="dropout")

    def _new_projection(self, name: str, units: int, input_shape: tuple) -> Projection:
        initializers = {
            "kernel_initializer": new_initializer(self.kernel_initializer),
            "bias_initializer": new_initializer(self.bias_initializer),
        }
        layer = Projection(units, **initializers, dtype=self.dtype_policy, name=name)
        layer.build(input_shape)
        return layer

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return self.outer(self._dropout(self.activation(self.inner(inputs)), training=training))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "feed_forward_dim": self.feed_forward_dim,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
