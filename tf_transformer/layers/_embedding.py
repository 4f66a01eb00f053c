"""Token embedding that is also the projection to logits (section 3.4)."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.layers._arguments import check_sizes
from tf_transformer.layers._projection import TableMatrix, current_layout

_MOST_COLUMNS = 2**26
"""Values of a table stored as (D, V), at most: loading it takes a transposed copy."""


@keras.saving.register_keras_serializable(package="tf_transformer")
class SharedEmbedding(keras.layers.Layer):
    """Embedding matrix shared between ids and logits: rows times sqrt(D) for ids, its transpose for logits.

    It creates the Keras mask of its outputs: False where an id is `pad_id`.

    Args:
        vocab_size: number of rows (V).
        model_dim: width of the model (D).
        scale_embeddings: whether embeddings are multiplied by sqrt(D).
        pad_id: id of the padding; None: there is none, and no mask is created.

    Call arguments:
        inputs: integer ids (B, S), each in [0, V); with `reverse` hidden states (B, T, D).
        reverse: whether to project hidden states to logits.

    Returns:
        (B, S, D); with `reverse` logits (B, T, V), float32.

    Example:
        >>> embedding = SharedEmbedding(100, 8)
        >>> embedding(embedding(keras.ops.array([[5, 3, 0]])), reverse=True).shape
        TensorShape([1, 3, 100])
    """

    def __init__(
        self, vocab_size: int, model_dim: int, scale_embeddings: bool = True, pad_id: int | None = 0, **kwargs: Any
    ):
        super().__init__(**kwargs)
        check_sizes("SharedEmbedding", vocab_size=vocab_size, model_dim=model_dim)
        self.vocab_size = vocab_size
        self.model_dim = model_dim
        self.scale_embeddings = scale_embeddings
        self.pad_id = pad_id
        self.supports_masking = True
        self._transposed = False
        self._matrix: TableMatrix | None = None

    def prefer_logits(self) -> None:
        """Store the table in the layout that is faster for logits, which may be slower for lookups.

        To be called before `build`; see `inference_layout`. Large tables stay (V, D).
        """
        self._transposed = current_layout().columns and self.vocab_size * self.model_dim <= _MOST_COLUMNS

    @property
    def transposed(self) -> bool:
        """Whether the table is stored as (D, V); see `inference_layout`."""
        return self._transposed

    def build(self, input_shape: tuple | None = None) -> None:
        initializer = keras.initializers.RandomNormal(stddev=self.model_dim**-0.5)
        shape = (self.vocab_size, self.model_dim)
        shape = shape[::-1] if self._transposed else shape
        self.table = self.add_weight(shape=shape, initializer=initializer, name="table")

    def call(self, inputs: Any, reverse: bool = False) -> Any:
        if reverse:
            return self.logits(inputs)
        check_ids(inputs, self.vocab_size, self.name)
        rows = self.rows(inputs)
        return rows * math.sqrt(self.model_dim) if self.scale_embeddings else rows

    def logits(self, hidden: Any) -> Any:
        """Project hidden states (…, D) to logits (…, V), float32.

        In a functional model call the layer with `reverse=True` instead: outside of a call the table is a constant.
        """
        if self._matrix is not None and (found := self._matrix.product(hidden)) is not None:
            return found
        table = ops.cast(self.table, hidden.dtype)
        columns = table if self._transposed else ops.transpose(table)
        return ops.cast(ops.matmul(hidden, columns), "float32")

    def logits_of(self, ids: Any) -> Callable[[Any], Any]:
        """The projection of hidden states (N, D) to the logits (N, U) of some ids (U,), whose rows it looks up once."""
        if self._matrix is not None and (found := self._matrix.rows_product(ids)) is not None:
            return found
        columns = ops.cast(ops.transpose(self.rows(ids)), "float32")  # faster to multiply by, in each of many steps
        return lambda hidden: ops.matmul(ops.cast(hidden, "float32"), columns)

    def rows(self, ids: Any) -> Any:
        """The rows of some ids, as they are in the table: (…,) -> (…, D)."""
        if self._matrix is not None and (found := self._matrix.rows(ids)) is not None:
            return found
        if keras.backend.standardize_dtype(ids.dtype) not in ("int32", "int64"):
            ids = ops.cast(ids, "int32")
        if not self._transposed:
            return ops.take(self.table, ids, axis=0)
        # Value by value: twice as fast as `take` along the second axis.
        places = ops.cast(ids, "int32")[..., None] + ops.arange(self.model_dim, dtype="int32") * self.vocab_size
        return ops.take(ops.reshape(self.table, (-1,)), places, axis=0)

    def replace_table(self, matrix: TableMatrix) -> None:
        """Look up rows and compute logits with `matrix` (V, D) from now on. What is saved remains the table."""
        self._matrix = matrix

    def save_own_variables(self, store: Any) -> None:
        if self._transposed:
            store["0"] = ops.convert_to_numpy(self.table).T
        else:
            super().save_own_variables(store)

    def load_own_variables(self, store: Any) -> None:
        super().load_own_variables({"0": np.asarray(store["0"]).T} if self._transposed else store)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        if "int" not in keras.backend.standardize_dtype(inputs.dtype):
            return previous_mask
        return None if self.pad_id is None else ops.not_equal(inputs, self.pad_id)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape, self.model_dim)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        # Traced, because `reverse` changes the shape of what is returned.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        names = ("vocab_size", "model_dim", "scale_embeddings", "pad_id")
        return super().get_config() | {name: getattr(self, name) for name in names}


def check_ids(ids: Any, vocab_size: int, name: str) -> None:
    """Reject ids that are not integers and, except while tracing, ids outside [0, V)."""
    dtype = keras.backend.standardize_dtype(ids.dtype)
    if "int" not in dtype:
        raise ValueError(
            f"{name} expects integer ids. Received: dtype {dtype}. Tokenize the text first; a Sequential or functional "
            'model begins with keras.Input((None,), dtype="int32").'
        )
    try:
        values = ops.convert_to_numpy(ids)
    except Exception:  # a traced or symbolic tensor has no values; each backend has its own exception
        return
    if values.size and (values.min() < 0 or values.max() >= vocab_size):
        raise ValueError(
            f"{name} expects ids from 0 to {vocab_size - 1}. Received: ids from {values.min()} to {values.max()}. "
            "Use the tokenizer that the model was built for."
        )
