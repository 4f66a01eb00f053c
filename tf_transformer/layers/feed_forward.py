"""The position-wise feed-forward network (section 3.3): max(0, x W1 + b1) W2 + b2."""

import keras


@keras.saving.register_keras_serializable(package="tf_transformer")
class FeedForward(keras.layers.Layer):
    """Two linear maps with an activation between them, the same at every position. Masks pass through.

    Args:
        inner_dim: width between the two maps (d_ff).
        activation: "relu" (the paper), "gelu" or "swish".
        dropout: applied after the activation; the paper states none.

    Call arguments:
        inputs: (B, T, D).

    Returns:
        (B, T, D).

    Example:
        >>> FeedForward(2048)(keras.ops.ones((2, 5, 512))).shape
        TensorShape([2, 5, 512])
    """

    def __init__(self, inner_dim, activation="relu", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.inner_dim = inner_dim
        self.activation = activation
        self.dropout = dropout
        self.supports_masking = True

    def build(self, input_shape):
        dim = input_shape[-1]
        self._inner = keras.layers.Dense(self.inner_dim, self.activation, dtype=self.dtype_policy, name="inner")
        self._outer = keras.layers.Dense(dim, dtype=self.dtype_policy, name="outer")
        self._dropout = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy, name="dropout")
        self._inner.build(input_shape)
        self._outer.build((*input_shape[:-1], self.inner_dim))

    def call(self, inputs, training=None):
        return self._outer(self._dropout(self._inner(inputs), training=training))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        config = {"inner_dim": self.inner_dim, "activation": self.activation, "dropout": self.dropout}
        return super().get_config() | config
