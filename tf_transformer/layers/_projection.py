"""The linear maps of the paper's sub-layers, x W + b."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tf_transformer")
class Projection(keras.layers.Layer):
    """A linear map of the last axis, as `keras.layers.Dense`, whose kernel may lie the other way round.

    The numbers are the same but for rounding. A search, which sends a few hundred rows at the most through each kernel,
    is faster with transposed ones on a CPU without AVX-512: kernels whose rows are a power of two apart fall into the
    same places of its caches. Training and long batches are not. Masks pass through.

    Args:
        units: width of the output.
        use_bias: whether b is there.
        transposed: whether the kernel is kept as (out, in) instead of (in, out).

    Call arguments:
        inputs: (…, in).

    Returns:
        (…, out).

    Example:
        >>> Projection(2048, transposed=True)(keras.ops.ones((2, 5, 512))).shape
        TensorShape([2, 5, 2048])
    """

    def __init__(self, units, use_bias=True, transposed=False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.use_bias = use_bias
        self.transposed = transposed
        self.supports_masking = True

    def build(self, input_shape):
        shape = (self.units, input_shape[-1]) if self.transposed else (input_shape[-1], self.units)
        self.kernel = self.add_weight(shape=shape, initializer="glorot_uniform", name="kernel")
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias") if self.use_bias else None

    def call(self, inputs):
        output = ops.matmul(inputs, ops.transpose(self.kernel) if self.transposed else self.kernel)
        # `ops.add`, not `+`: it becomes a BiasAdd, which TensorFlow fuses with the product and sums faster going back.
        return output if self.bias is None else ops.add(output, self.bias)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        config = {"units": self.units, "use_bias": self.use_bias, "transposed": self.transposed}
        return super().get_config() | config
