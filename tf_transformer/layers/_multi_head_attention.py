"""Multi-head attention (section 3.2.2): Concat(head_1, …, head_h) W^O, head_i = Attention(QW_i^Q, KW_i^K, VW_i^V)."""

from typing import Any

import keras
from keras import ops

from tf_transformer.layers._arguments import check_rates, check_sizes
from tf_transformer.layers._attention import combine_masks, scaled_dot_product_attention
from tf_transformer.layers._blockwise_attention import blockwise_attention
from tf_transformer.layers._dropout import Dropout
from tf_transformer.layers._projection import Projection, new_initializer


@keras.saving.register_keras_serializable(package="tf_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """Multi-head attention with independent key and value widths, called as `keras.layers.MultiHeadAttention`.

    Table 3, row B of the paper changes d_k alone, so `key_dim` and `value_dim` are independent of each other and of
    the width of the model.

    Masks are boolean, True = may attend, and are combined. The Keras masks of key and value hide padded positions;
    that of the query passes through to the output (masked queries are computed, as nothing reads them). A query that
    may attend to nothing yields zeros.

    Args:
        num_heads: number of heads (h).
        key_dim: width of queries and keys per head (d_k).
        value_dim: width of values per head (d_v); None: `key_dim`.
        use_bias: whether the four projections have a bias.
        dropout: rate on the attention weights; the paper states none.
        block_size: None, or the number of keys per block of blockwise attention, which never holds all weights.
        kernel_initializer: initializer of the four kernels.
        bias_initializer: initializer of the four biases.

    Call arguments:
        query: (B, T, D).
        value: (B, S, M); the same tensor as `query` for self-attention.
        key: (B, S, N); None: `value`.
        query_mask, value_mask, key_mask: boolean (B, T), (B, S), (B, S); Keras passes those of its tensors.
        attention_mask: boolean (B, T, S), or (T, S) for all rows of the batch.
        return_attention_scores: whether to return the attention weights (B, H, T, S), too.
        training: whether dropout is active.
        use_causal_mask: whether query t attends to keys 0 … t only.

    Returns:
        (B, T, D), or a tuple of it and the attention weights.

    Example:
        >>> attention = MultiHeadAttention(num_heads=8, key_dim=64)
        >>> attention(keras.ops.ones((2, 5, 512)), keras.ops.ones((2, 7, 512))).shape
        TensorShape([2, 5, 512])
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        block_size: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        optional = {"value_dim": value_dim, "block_size": block_size}
        given = {name: size for name, size in optional.items() if size is not None}
        check_sizes("MultiHeadAttention", num_heads=num_heads, key_dim=key_dim, **given)
        check_rates("MultiHeadAttention", dropout=dropout)
        if block_size is not None and dropout:
            raise ValueError(
                "Blockwise attention does not hold the attention weights that dropout applies to. "
                f"Received: block_size={block_size} and dropout={dropout}. Set dropout to 0 or block_size to None."
            )
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.block_size = block_size
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_masking = True

    def build(self, query_shape: tuple, value_shape: tuple, key_shape: tuple | None = None) -> None:
        key_shape = value_shape if key_shape is None else key_shape
        if any(len(shape) != 3 for shape in (query_shape, value_shape, key_shape)):
            raise ValueError(
                f"{self.name} expects query (B, T, D), value (B, S, M) and key (B, S, N). "
                f"Received: shapes {query_shape}, {value_shape} and {key_shape}."
            )
        keys, values = self.num_heads * self.key_dim, self.num_heads * self.value_dim
        self.query = self._new_projection("query", keys, query_shape)
        self.key = self._new_projection("key", keys, key_shape)
        self.value = self._new_projection("value", values, value_shape)
        self.output_projection = self._new_projection("output", query_shape[-1], (*query_shape[:-1], values))
        self._dropout = Dropout(self.dropout, dtype=self.dtype_policy, name="dropout")

    def _new_projection(self, name: str, units: int, input_shape: tuple) -> Projection:
        layer = Projection(
            units,
            self.use_bias,
            new_initializer(self.kernel_initializer),
            new_initializer(self.bias_initializer),
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build(input_shape)
        return layer

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        mask = combine_masks(self._checked(attention_mask), value_mask, key_mask)
        queries = self._split_heads(self.query(query))
        keys = self._split_heads(self.key(value if key is None else key))
        values = self._split_heads(self.value(value))
        if self.block_size and not return_attention_scores:
            attended = blockwise_attention(queries, keys, values, mask, use_causal_mask, self.block_size)
            return self.output_projection(self._join_heads(attended))
        dropout = self._dropout if self.dropout else None
        attended, weights = scaled_dot_product_attention(
            queries, keys, values, mask, use_causal_mask, dropout, training
        )
        output = self.output_projection(self._join_heads(attended))
        return (output, weights) if return_attention_scores else output

    def _checked(self, attention_mask: Any) -> Any:
        """The attention mask as (B or 1, T, S), or None."""
        if attention_mask is None:
            return None
        attention_mask = ops.convert_to_tensor(attention_mask)
        if len(attention_mask.shape) not in (2, 3):
            raise ValueError(
                f"{self.name} expects an attention_mask of shape (B, T, S) or (T, S). "
                f"Received: shape {tuple(attention_mask.shape)}. Pass a mask of padded keys as value_mask."
            )
        return attention_mask[None] if len(attention_mask.shape) == 2 else attention_mask

    def _split_heads(self, x: Any) -> Any:
        """(B, T, H * d) -> (B, H, T, d)."""
        batch, length, depth = ops.shape(x)[0], ops.shape(x)[1], x.shape[-1] // self.num_heads
        return ops.transpose(ops.reshape(x, (batch, length, self.num_heads, depth)), (0, 2, 1, 3))

    def _join_heads(self, x: Any) -> Any:
        """(B, H, T, d) -> (B, T, H * d)."""
        batch, length = ops.shape(x)[0], ops.shape(x)[2]
        return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, length, self.num_heads * self.value_dim))

    def compute_mask(self, query: Any, previous_mask: Any = None) -> Any:
        return previous_mask

    def compute_output_shape(self, query_shape: tuple, value_shape: tuple, key_shape: tuple | None = None) -> tuple:
        return query_shape

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        # Traced, because `return_attention_scores` changes the structure of what is returned.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        names = ("num_heads", "key_dim", "value_dim", "dropout", "use_bias", "block_size")
        return (
            super().get_config()
            | {name: getattr(self, name) for name in names}
            | {
                "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
                "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            }
        )
