"""The position-wise feed-forward network (section 3.3): max(0, x W1 + b1) W2 + b2."""

import keras

from tf_transformer.layers._projection import Projection


@keras.saving.register_keras_serializable(package="tf_transformer")
class FeedForward(keras.layers.Layer):
    """Two linear maps with an activation between them, the same at every position. Masks pass through.

    Args:
        inner_dim: width between the two maps (d_ff).
        activation: "relu" (the paper), "gelu" or "swish".
        dropout: applied after the activation; the paper states none.
        transposed_kernels: whether the two maps keep their kernels as (out, in); see `Projection`.

    Call arguments:
        inputs: (B, T, D).

    Returns:
        (B, T, D).

    Example:
        >>> FeedForward(2048)(keras.ops.ones((2, 5, 512))).shape
        TensorShape([2, 5, 512])
    """

    def __init__(self, inner_dim, activation="relu", dropout=0.0, transposed_kernels=False, **kwargs):
        super().__init__(**kwargs)
        self.inner_dim = inner_dim
        self.activation = activation
        self.dropout = dropout
        self.transposed_kernels = transposed_kernels
        self.supports_masking = True

    def build(self, input_shape):
        arguments = {"transposed": self.transposed_kernels, "dtype": self.dtype_policy}
        self.inner = Projection(self.inner_dim, **arguments, name="inner")
        self.outer = Projection(input_shape[-1], **arguments, name="outer")
        self.activate = keras.activations.get(self.activation)
        self._dropout = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy, name="dropout")
        self.inner.build(input_shape)
        self.outer.build((*input_shape[:-1], self.inner_dim))

    def call(self, inputs, training=None):
        return self.outer(self._dropout(self.activate(self.inner(inputs)), training=training))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        names = ("inner_dim", "activation", "dropout", "transposed_kernels")
        return super().get_config() | {name: getattr(self, name) for name in names}
