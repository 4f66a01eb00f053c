"""Eight-bit weights: int8 matrices whose products oneDNN computes in integers (`_QuantizedMatMul`).

    x W^T  ≈  row scale * (int8 rows of x times int8 rows of W) * scale per output

Each row of the activations has a scale of its own, its largest magnitude over 127, so that a row does not depend on
its batch. Each row of a matrix has a scale, its largest magnitude over 63: on CPUs without VNNI oneDNN adds pairs of
products in 16 bits, and 255 * 63 * 2 is the most that they hold. The sums are exact, so all CPUs give the same ones.

Weights are variables, stored once for all signatures. oneDNN packs a matrix at its first use and keeps the copy, one
per signature.
"""

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tf_transformer.layers import Projection, SharedEmbedding
from tf_transformer.model import Transformer

OP = "_QuantizedMatMul"
LEVELS = 63
"""Largest magnitude of an int8 weight."""

_ROW_LEVELS = 127.0
# From this number of outputs on, the kernel applies the scales of the weights, which saves a pass over the result. It
# makes a primitive per address of scales, so that smaller matrices share one scale of 1 and the primitives with it.
_WIDE = 4096


class QuantizedMatrix(tf.Module):
    """A matrix (out, in) in eight bits, in the place of a projection's kernel or an embedding's table.

    Args:
        values: (out, in) float32.
        unit: a variable that holds 127.0, the same for all matrices of a model.

    Attributes:
        values: int8 variable (out, in), from -63 to 63.
        scales: float32 variable (out,).
    """

    def __init__(self, values: np.ndarray, unit: tf.Variable):
        super().__init__(name="quantized")
        scales = np.maximum(np.abs(values).max(axis=1), np.finfo(np.float32).tiny) / np.float32(LEVELS)
        with tf.device("/CPU:0"):
            self.values = tf.Variable(np.rint(values / scales[:, None]).astype(np.int8), trainable=False)
            self.scales = tf.Variable(scales.astype(np.float32), trainable=False)
        self._unit = unit

    def product(self, x: tf.Tensor) -> tf.Tensor:
        """x W^T: (…, in) -> (…, out). Only while a graph is traced: eager TensorFlow does not offer the op."""
        units, width = self.values.shape
        flat = tf.reshape(x, [-1, width])
        quantized, row_scales = quantize_rows(flat)
        if units >= _WIDE:
            # The kernel divides both ranges by 127, the levels of int8.
            result = _integer_product(quantized, self.values, _ROW_LEVELS * _ROW_LEVELS, self.scales) * row_scales
        else:
            result = _integer_product(quantized, self.values, _ROW_LEVELS, self._unit) * row_scales * self.scales
        result = tf.reshape(result, tf.concat([tf.shape(x)[:-1], [units]], axis=0))
        return tf.ensure_shape(result, [*x.shape[:-1], units])

    def rows(self, ids: tf.Tensor) -> tf.Tensor:
        """The rows of some ids as float32: (…,) -> (…, in)."""
        return tf.cast(tf.gather(self.values, ids), tf.float32) * tf.gather(self.scales, ids)[..., None]


def quantize_rows(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """(N, in) float32 -> int8 of the same shape, and the scales (N, 1) by which they have to be multiplied."""
    largest = tf.reduce_max(tf.abs(x), axis=1, keepdims=True)
    factors = tf.math.divide_no_nan(_ROW_LEVELS, largest)
    return tf.cast(tf.round(x * factors), tf.int8), largest * (1 / _ROW_LEVELS)


def quantize_model(model: Transformer) -> dict[str, QuantizedMatrix]:
    """Replace the kernels and tables of a model by eight-bit matrices.

    What is traced from now on computes with these. The float32 variables remain in the model, unused.

    Returns:
        The matrices, by the path of the variable that each replaces. They have to be saved instead of those.
    """
    require_kernel()
    with tf.device("/CPU:0"):
        unit = tf.Variable(_ROW_LEVELS, trainable=False)
    matrices = {}
    for layer in _layers_of(model):
        if isinstance(layer, Projection):
            values = keras.ops.convert_to_numpy(layer.kernel)
            matrix = QuantizedMatrix(values if layer.transposed else values.T, unit)
            matrices[layer.kernel.path] = matrix
            layer.replace_kernel(matrix)
        elif isinstance(layer, SharedEmbedding):
            matrix = QuantizedMatrix(keras.ops.convert_to_numpy(layer.table), unit)
            matrices[layer.table.path] = matrix
            layer.replace_table(matrix)
    return matrices


def require_kernel() -> None:
    """Raise ValueError unless this TensorFlow computes products of int8 matrices exactly."""
    rows, columns = np.int8([[127] * 64, [-127] * 64]), np.int8([[LEVELS] * 64, [-LEVELS] * 64, [1] * 64])
    try:
        found = tf.function(
            lambda: _integer_product(tf.constant(rows), tf.constant(columns), _ROW_LEVELS, tf.constant(_ROW_LEVELS)),
            autograph=False,
        )().numpy()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"Expected a TensorFlow with oneDNN's op {OP} for weights int8: TensorFlow 2.20 or later for Linux on "
            f"x86-64. Received: TensorFlow {tf.__version__}, where it fails: {str(error).splitlines()[0][:200]} "
            "Export with weights float32, float16 or bfloat16."
        ) from error
    expected = rows.astype(np.int32) @ columns.astype(np.int32).T
    if not np.array_equal(found, expected):
        raise ValueError(
            f"Expected exact sums from oneDNN's op {OP}. Received: {found.tolist()} instead of {expected.tolist()} "
            "on this CPU. Export with weights float32, float16 or bfloat16."
        )


def _integer_product(rows: tf.Tensor, weights: tf.Tensor, row_range: float, weight_range: tf.Tensor) -> tf.Tensor:
    """int8 (N, in) times int8 (out, in), transposed: (N, out) float32, times both ranges over 127.

    Args:
        row_range: the same for all calls, because oneDNN makes a primitive per value.
        weight_range: scalar or (out,).
    """
    weights, weight_range = tf.convert_to_tensor(weights), tf.convert_to_tensor(weight_range)
    ranges = [*[tf.constant(row_range)] * 2, *[weight_range] * 2]  # minimum and maximum, of which the larger counts
    inputs = [*(tf.bitcast(each, tf.qint8) for each in (rows, weights)), tf.zeros([weights.shape[0]]), *ranges]
    attributes = {
        "Tdevice_inputs": _types(tf.qint8, tf.qint8, tf.float32),
        "Thost_inputs": _types(*[tf.float32] * 4),
        "Tdevice_outputs": _types(tf.float32),
        "Thost_outputs": _types(),
        "T1": _type(tf.qint8),
        "T2": _type(tf.qint8),
        "Tbias": _type(tf.float32),
        "U": _type(tf.float32),
        "Tout": _type(tf.float32),
        "transpose_b": attr_value_pb2.AttrValue(b=True),
        # The op knows no product without a bias: it is zero, since rows are scaled before the real one is added.
        "fused_ops": attr_value_pb2.AttrValue(list={"s": [b"BiasAdd", b"Dequantize"]}),
        "is_weight_const": attr_value_pb2.AttrValue(b=True),
        "is_bias_const": attr_value_pb2.AttrValue(b=True),
        "input_quant_mode": attr_value_pb2.AttrValue(s=b"SCALED"),
        "output_quant_mode": attr_value_pb2.AttrValue(s=b"SCALED"),
    }
    # Not in tf.raw_ops, so the node is created by hand.
    product = inputs[0].graph.create_op(OP, inputs, [tf.float32], name="int8_product", attrs=attributes).outputs[0]
    return tf.ensure_shape(product, [rows.shape[0], weights.shape[0]])


def _type(dtype: tf.DType) -> attr_value_pb2.AttrValue:
    return attr_value_pb2.AttrValue(type=dtype.as_datatype_enum)


def _types(*dtypes: tf.DType) -> attr_value_pb2.AttrValue:
    return attr_value_pb2.AttrValue(list={"type": [each.as_datatype_enum for each in dtypes]})


def _layers_of(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """All layers inside a layer, once each."""
    seen: set[int] = set()
    waiting = [layer]
    while waiting:
        for value in vars(waiting.pop()).values():
            for each in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(each, keras.layers.Layer) and id(each) not in seen:
                    seen.add(id(each))
                    waiting.append(each)
                    yield each
