"""Matrices in the place of a model's weights: in eight bits, or packed. Both are nodes of oneDNN, created by hand.

**Eight bits** (`_QuantizedMatMul`): products in integers.

    x W^T  ≈  scale per row * (int8 rows of x times int8 rows of W) * scale per output

Each row of the activations has a scale of its own, its largest magnitude over 127, so that a row does not depend on
its batch. Each row of a matrix has a scale, its largest magnitude over 63: on CPUs without VNNI oneDNN adds pairs of
products in 16 bits, and 255 * 63 * 2 is the most that they hold. The sums are exact, so all CPUs give the same ones.

**Packed** (`_MklNativeFusedMatMul`): float32. oneDNN has its own layout for matrices. A product with a variable is
packed at each call, unless the node says that the matrix is constant, which TensorFlow itself says of constants only.
A node packs for the number of rows that it multiplies first: 1 to 6 and more than about 83 have one layout, those
between another, and with the wrong one it packs at each call. So only the loop for small steps has such nodes (see
`separate_small_steps`), where packing takes the largest part of the time.

Weights are variables, stored once for all signatures. Both kinds of node pack a matrix at its first use and keep the
copy: one per signature and search, since the second search of failure detection has nodes of its own. The rows that a
shortlist selects differ from batch to batch, so they are packed at each call.
"""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tf_transformer.decoding import in_small_step
from tf_transformer.layers import SSRU, MultiHeadAttention, Projection, SharedEmbedding
from tf_transformer.model import Transformer

OP, PACKED_OP = "_QuantizedMatMul", "_MklNativeFusedMatMul"
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

    def product(self, x: tf.Tensor, bias: Any = None) -> tf.Tensor:
        """x W^T + b: (…, in) -> (…, out). Only while a graph is traced: eager TensorFlow does not offer the op."""
        units, width = self.values.shape
        quantized, largest = quantize_rows(_as_rows(x, width))
        if units >= _WIDE:
            # The kernel divides both ranges by 127, the levels of int8.
            result = _integer_product(quantized, self.values, _ROW_LEVELS, self.scales) * largest
        else:
            result = _integer_product(quantized, self.values, 1.0, self._unit) * largest * self.scales
        return _shaped_like(x, result if bias is None else result + bias)

    def rows(self, ids: tf.Tensor) -> tf.Tensor:
        """The rows of some ids as float32: (…,) -> (…, in)."""
        return tf.cast(_gather(self.values, ids), tf.float32) * _gather(self.scales, ids)[..., None]

    def rows_product(self, ids: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
        """The function x -> x W^T of the rows of some ids (U,), which are not empty: (N, in) -> (N, U)."""
        values, scales = _gather(self.values, ids), _gather(self.scales, ids)

        def product(x: tf.Tensor) -> tf.Tensor:
            quantized, largest = quantize_rows(x)
            # Gathered scales have another address in each batch, so in the kernel each would need a new primitive.
            return _integer_product(quantized, values, 1.0, self._unit, constant=False) * largest * scales

        return product


class _Stack(tf.Module):
    """The eight-bit matrices of several projections of one input, as one product.

    Args:
        kernels: (out, in) float32 each.
        unit: as in `QuantizedMatrix`.
    """

    def __init__(self, kernels: list[np.ndarray], unit: tf.Variable):
        super().__init__(name="stack")
        self.matrix = QuantizedMatrix(np.concatenate(kernels), unit)
        self._sizes = tuple(len(kernel) for kernel in kernels)
        self._latest = _Products()

    def products(self, x: tf.Tensor) -> list[tf.Tensor]:
        """x W^T of each matrix: (…, in) -> (…, out). They are computed once per `x`."""
        if self._latest.x is not x:
            self._latest.x, self._latest.of_x = x, tf.split(self.matrix.product(x), self._sizes, axis=-1)
        return self._latest.of_x


class _Products:
    """The products of the latest input of a `_Stack`. No container, because tf.Module would save it."""

    x: Any = None
    of_x: Any = None


class StackedMatrix(tf.Module):
    """A matrix of a stack, in the place of a projection's kernel."""

    def __init__(self, stack: _Stack, number: int):
        super().__init__(name="stacked")
        self.stack, self._number = stack, number

    def product(self, x: tf.Tensor, bias: Any = None) -> tf.Tensor:
        """x W^T + b: (…, in) -> (…, out). Only while a graph is traced: eager TensorFlow does not offer the op."""
        result = self.stack.products(x)[self._number]
        return result if bias is None else result + bias


class PackedMatrix:
    """A float32 matrix that oneDNN packs once, in the place of a kernel or a table.

    It is used in small steps of a search only (see `separate_small_steps`). Otherwise the layer uses its weight.

    Args:
        variable: (out, in), or (in, out) if not `transposed`. It must not change after the first product.
    """

    def __init__(self, variable: tf.Variable, transposed: bool = True):
        self._variable, self._transposed = variable, transposed

    def product(self, x: tf.Tensor, bias: Any = None) -> tf.Tensor | None:
        """x W^T + b: (…, in) -> (…, out), or None outside of small steps."""
        return self.packed_product(x, bias) if in_small_step() else None

    def rows(self, ids: tf.Tensor) -> None:
        """Return None: the layer looks ids up in its table."""

    def rows_product(self, ids: tf.Tensor) -> None:
        """Return None: the layer multiplies by rows of its table."""

    def packed_product(self, x: tf.Tensor, bias: Any = None) -> tf.Tensor:
        """x W^T + b: (…, in) -> (…, out). Only while a graph is traced: eager TensorFlow does not offer the op."""
        units, width = self._variable.shape if self._transposed else self._variable.shape[::-1]
        bias = tf.zeros([units]) if bias is None else tf.convert_to_tensor(bias)
        inputs = [_as_rows(x, width), tf.convert_to_tensor(self._variable), bias]
        attributes = {
            "T": _type(tf.float32),
            "num_args": attr_value_pb2.AttrValue(i=1),
            "transpose_b": attr_value_pb2.AttrValue(b=self._transposed),
            "fused_ops": attr_value_pb2.AttrValue(list={"s": [b"BiasAdd"]}),
            "is_filter_const": attr_value_pb2.AttrValue(b=True),
            "_kernel": attr_value_pb2.AttrValue(s=b"MklNameChangeOp"),
        }
        node = inputs[0].graph.create_op(PACKED_OP, inputs, [tf.float32], name="packed_product", attrs=attributes)
        return _shaped_like(x, tf.ensure_shape(node.outputs[0], [None, units]))


def quantize_rows(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """(N, in) float32 -> int8 of the same shape, and the largest magnitudes (N, 1), which become 127."""
    largest = tf.reduce_max(tf.abs(x), axis=1, keepdims=True)
    factors = tf.math.divide_no_nan(_ROW_LEVELS, largest)
    return tf.cast(tf.round(x * factors), tf.int8), largest


def quantize_model(model: Transformer) -> dict[str, tf.Module]:
    """Replace the kernels and tables of a model by eight-bit matrices.

    What is traced from now on computes with these. The float32 variables remain in the model, unused.

    Returns:
        The matrices, by the path of the variable that each replaces. They have to be saved instead of those.
    """
    require_kernel()
    with tf.device("/CPU:0"):
        unit = tf.Variable(_ROW_LEVELS, trainable=False)

    def values(weight: Any, transposed: bool) -> np.ndarray:
        array = keras.ops.convert_to_numpy(weight)
        return array if transposed else array.T

    matrices: dict[str, tf.Module] = {}
    for layers in filter(None, map(_projections_of_one_input, _layers_of(model))):
        stack = _Stack([values(layer.kernel, layer.transposed) for layer in layers], unit)
        for number, layer in enumerate(layers):
            matrices[layer.kernel.path] = StackedMatrix(stack, number)
    return _replace_weights(
        model, lambda weight, transposed: matrices.get(weight.path) or QuantizedMatrix(values(weight, transposed), unit)
    )


def _projections_of_one_input(layer: keras.layers.Layer) -> list[Projection]:
    """Projections that a layer applies to the same tensor."""
    if isinstance(layer, SSRU):
        return [layer.forget, layer.input_projection]
    attention = getattr(layer, "causal_attention", None) or getattr(layer, "self_attention", None)
    return [attention.query, attention.key, attention.value] if isinstance(attention, MultiHeadAttention) else []


def pack_model(model: Transformer) -> None:
    """Let oneDNN pack the kernels and tables of a model once, in searches traced inside `separate_small_steps`.

    Its variables stay in use, and must not change after the first call.
    """
    trial, expected = PackedMatrix(tf.Variable(tf.ones([2, 3]))), f"op {PACKED_OP} for packed weights"
    _tried(lambda: trial.packed_product(tf.ones([1, 3])), expected, "Export without packed weights")
    _replace_weights(model, lambda weight, transposed: PackedMatrix(weight.value, transposed))


def _replace_weights(model: Transformer, matrix_of: Callable[[Any, bool], Any]) -> dict[str, Any]:
    """Replace each kernel and table by `matrix_of` the weight and whether it is (out, in) or (V, D).

    Returns:
        The matrices by path.
    """
    matrices = {}
    for layer in _layers_of(model):
        if isinstance(layer, Projection):
            matrices[layer.kernel.path] = matrix_of(layer.kernel, layer.transposed)
            layer.replace_kernel(matrices[layer.kernel.path])
        elif isinstance(layer, SharedEmbedding):
            matrices[layer.table.path] = matrix_of(layer.table, not layer.transposed)
            layer.replace_table(matrices[layer.table.path])
    return matrices


def require_kernel() -> None:
    """Raise ValueError unless this TensorFlow computes products of int8 matrices exactly."""
    rows = np.array([[127] * 64, [-127] * 64], np.int8)
    columns = np.array([[LEVELS] * 64, [-LEVELS] * 64, [1] * 64], np.int8)
    found = _tried(
        lambda: _integer_product(tf.constant(rows), tf.constant(columns), _ROW_LEVELS, tf.constant(_ROW_LEVELS)),
        f"op {OP} for weights int8: TensorFlow 2.17 or later for Linux on x86-64",
        "Export with weights float32, float16 or bfloat16",
    )
    expected = rows.astype(np.int32) @ columns.astype(np.int32).T
    if not np.array_equal(found, expected):
        raise ValueError(
            f"Expected exact sums from oneDNN's op {OP}. Received: {found.tolist()} instead of {expected.tolist()} "
            "on this CPU. Export with weights float32, float16 or bfloat16."
        )


def _tried(product: Callable[[], tf.Tensor], expected: str, advice: str) -> np.ndarray:
    """The value of a traced product; ValueError where TensorFlow does not have its op or kernel."""
    try:
        return tf.function(product, autograph=False)().numpy()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"Expected a TensorFlow with oneDNN's {expected}. Received: TensorFlow {tf.__version__}, where it fails: "
            f"{str(error).splitlines()[0][:200]} {advice}."
        ) from error


def _integer_product(
    rows: tf.Tensor, weights: tf.Tensor, row_range: float, weight_range: tf.Tensor, constant: bool = True
) -> tf.Tensor:
    """int8 (N, in) times int8 (out, in), transposed: (N, out) float32, times both ranges over 127.

    Args:
        row_range: the same for all calls, because oneDNN makes a primitive per value.
        weight_range: scalar or (out,).
        constant: whether the weights are the same in all calls of the node. It then packs them once.
    """
    weights, weight_range = tf.convert_to_tensor(weights), tf.convert_to_tensor(weight_range)
    ranges = [*[tf.constant(row_range)] * 2, *[weight_range] * 2]  # minimum and maximum, of which the larger counts
    zeros = tf.zeros([weights.shape[0] or tf.shape(weights)[0]])
    inputs = [*(tf.bitcast(each, tf.qint8) for each in (rows, weights)), zeros, *ranges]
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
        "is_weight_const": attr_value_pb2.AttrValue(b=constant),
        "is_bias_const": attr_value_pb2.AttrValue(b=constant),
        "input_quant_mode": attr_value_pb2.AttrValue(s=b"SCALED"),
        "output_quant_mode": attr_value_pb2.AttrValue(s=b"SCALED"),
    }
    # Not in tf.raw_ops, so the node is created by hand.
    product = inputs[0].graph.create_op(OP, inputs, [tf.float32], name="int8_product", attrs=attributes).outputs[0]
    return tf.ensure_shape(product, [rows.shape[0], weights.shape[0]])


def _gather(variable: tf.Variable, ids: tf.Tensor) -> tf.Tensor:
    """The rows of some ids. Of what is read, not of the variable: after a `ResourceGather`, all reads copy it."""
    return tf.gather(tf.convert_to_tensor(variable), ids)


def _as_rows(x: tf.Tensor, width: int) -> tf.Tensor:
    """(…, in) -> (N, in)."""
    return x if x.shape.rank == 2 else tf.reshape(x, [-1, width])


def _shaped_like(x: tf.Tensor, result: tf.Tensor) -> tf.Tensor:
    """(N, out) with the first axes of x (…, in): (…, out)."""
    if x.shape.rank == 2:
        return result
    units = result.shape[-1]
    result = tf.reshape(result, tf.concat([tf.shape(x)[:-1], [units]], axis=0))
    return tf.ensure_shape(result, [*x.shape[:-1], units])


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
