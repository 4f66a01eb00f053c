"""Linear projection x W + b, and the memory layout of weights."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
from keras import ops

from tf_transformer._cpu import cpu_flags
from tf_transformer.layers._arguments import check_sizes


class Layout(NamedTuple):
    """Memory layout of weights.

    transposed_kernels: whether kernels are (out, in) instead of (in, out).
    columns: whether the table that logits are computed with is (D, V) instead of (V, D).
    """

    transposed_kernels: bool = False
    columns: bool = False


_TRAINING = Layout()
_layout: contextvars.ContextVar[Layout] = contextvars.ContextVar("layout", default=_TRAINING)


def current_layout() -> Layout:
    """The layout of the layers that are created now."""
    return _layout.get()


@contextlib.contextmanager
def inference_layout(transposed: bool | None = None, rows: bool = False) -> Iterator[None]:
    """Create the layers inside this context with the weights in the layout that is faster for inference on CPUs.

    The results are the same up to rounding. A search, which sends a few hundred rows at most through each kernel, is
    faster with transposed kernels on CPUs without AVX-512: rows of a kernel that are a power of two apart compete for
    the same cache lines. With AVX-512 it is slower with them. Logits are faster with columns of the table (D, V), most
    of all those of few rows. Training and large batches gain nothing.

    Weights are saved as (in, out) and (V, D) in any case, so files do not depend on the layout. `get_weights` and
    `set_weights` use the layout in memory.

    Args:
        transposed: whether kernels are stored as (out, in); None: unless this CPU has AVX-512.
        rows: whether tables stay (V, D), for a search that looks up many rows, such as one with a shortlist.
    """
    transposed = "avx512f" not in cpu_flags() if transposed is None else transposed
    token = _layout.set(Layout(transposed, columns=not rows))
    try:
        yield
    finally:
        _layout.reset(token)


class Matrix(Protocol):
    """A matrix (out, in) that stands in for a weight, such as one in eight bits.

    Methods return None where the layer should compute with its weight.
    """

    def product(self, x: Any, bias: Any = None) -> Any:
        """x W^T + b: (…, in) -> (…, out)."""


class TableMatrix(Matrix, Protocol):
    """A matrix that stands in for an embedding's table (V, D)."""

    def rows(self, ids: Any) -> Any:
        """The rows of some ids: (…,) -> (…, D)."""

    def rows_product(self, ids: Any) -> Callable[[Any], Any] | None:
        """The function x -> x W^T of the rows of some ids (U,), which are looked up once: (N, D) -> (N, U)."""


def new_initializer(initializer: Any) -> Any:
    """A fresh copy of an initializer: one instance gives all weights of one shape the same values."""
    if isinstance(initializer, keras.initializers.Initializer):
        return type(initializer).from_config(initializer.get_config())
    return initializer


@keras.saving.register_keras_serializable(package="tf_transformer")
class Projection(keras.layers.Layer):
    """Linear projection of the last axis, as `keras.layers.Dense` without activation. Masks pass through.

    Args:
        units: width of the output.
        use_bias: whether to add a bias.
        kernel_initializer: initializer of the kernel.
        bias_initializer: initializer of the bias.

    Call arguments:
        inputs: (…, in).

    Returns:
        (…, out).

    Example:
        >>> Projection(2048)(keras.ops.ones((2, 5, 512))).shape
        TensorShape([2, 5, 2048])
    """

    def __init__(
        self,
        units: int,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_sizes("Projection", units=units)
        self.units = units
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_masking = True
        self._transposed = current_layout().transposed_kernels
        self._matrix: Matrix | None = None

    def build(self, input_shape: tuple) -> None:
        self.input_spec = keras.layers.InputSpec(min_ndim=1, axes={-1: input_shape[-1]})
        shape = (self.units, input_shape[-1]) if self._transposed else (input_shape[-1], self.units)
        self.kernel = self.add_weight(shape=shape, initializer=self.kernel_initializer, name="kernel")
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(shape=(self.units,), initializer=self.bias_initializer, name="bias")

    def call(self, inputs: Any) -> Any:
        return self.apply(inputs)

    def apply(self, inputs: Any) -> Any:
        """The projection in the dtype of `inputs`, whatever the layer's policy."""
        if self._matrix is not None and (found := self._matrix.product(inputs, self.bias)) is not None:
            return found
        kernel = ops.cast(self.kernel, inputs.dtype)
        # As rows, and `ops.add`, not `+`: it becomes a BiasAdd, which TensorFlow fuses with the product.
        rows = ops.reshape(inputs, (-1, inputs.shape[-1])) if len(inputs.shape) > 2 else inputs
        output = ops.matmul(rows, ops.transpose(kernel) if self._transposed else kernel)
        if self.bias is not None:
            output = ops.add(output, ops.cast(self.bias, inputs.dtype))
        return ops.reshape(output, (*ops.shape(inputs)[:-1], self.units)) if len(inputs.shape) > 2 else output

    def replace_kernel(self, matrix: Matrix) -> None:
        """Compute products with `matrix` (out, in) from now on. What is saved remains the kernel."""
        self._matrix = matrix

    @property
    def transposed(self) -> bool:
        """Whether the kernel is stored as (out, in); see `inference_layout`."""
        return self._transposed

    def save_own_variables(self, store: Any) -> None:
        if not self._transposed:
            super().save_own_variables(store)
            return
        store["0"] = ops.convert_to_numpy(self.kernel).T
        if self.bias is not None:
            store["1"] = self.bias

    def load_own_variables(self, store: Any) -> None:
        if self._transposed:
            names = list(store.keys())  # Keras' store is no dictionary, but has keys
            store = {name: np.asarray(store[name]) for name in names}
            store["0"] = store["0"].T
        super().load_own_variables(store)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.units)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "units": self.units,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
