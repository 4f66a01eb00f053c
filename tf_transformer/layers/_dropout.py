"""Dropout (section 5.4) from few random bits."""

from typing import Any

import keras
from keras import ops

_LEVELS = 2**16


@keras.saving.register_keras_serializable(package="tf_transformer")
class Dropout(keras.layers.Dropout):
    """Dropout as `keras.layers.Dropout`, from 16 random bits per value instead of 32.

    Random numbers are a large part of the cost of dropout on CPUs. The rate is rounded to a multiple of 2^-16, and the
    values that are kept are divided by one less the rounded rate. It is Keras' own on other backends than TensorFlow,
    with a `noise_shape`, and where the last axis is not a multiple of four.

    Args:
        rate: fraction of the values that become zero.

    Call arguments:
        inputs: a tensor of any shape.
        training: whether dropout is active.

    Example:
        >>> Dropout(0.1)(keras.ops.ones((2, 5, 512)), training=True).shape
        TensorShape([2, 5, 512])
    """

    def call(self, inputs: Any, training: bool = False) -> Any:
        dropped = round(self.rate * _LEVELS)
        if not training or not 0 < dropped < _LEVELS or not self._divisible(inputs):
            return super().call(inputs, training=training)
        # One int64 for four values; its range leaves out one of 2^64 numbers. Not int32: on a GPU TensorFlow reshapes
        # it in host memory.
        shape = (*ops.shape(inputs)[:-1], inputs.shape[-1] // 4)
        bits = keras.random.randint(shape, -(2**63), 2**63 - 1, "int64", self.seed_generator)
        kept = ops.view(bits, "int16") >= ops.convert_to_tensor(dropped - _LEVELS // 2, "int16")
        # A product, not `where`: it takes one pass less in each direction.
        return inputs * (ops.cast(kept, inputs.dtype) * (_LEVELS / (_LEVELS - dropped)))

    def _divisible(self, inputs: Any) -> bool:
        last: int = (inputs.shape[-1] or 0) if len(inputs.shape) else 0
        plain = self.noise_shape is None and keras.backend.backend() == "tensorflow"
        return plain and last > 0 and last % 4 == 0
