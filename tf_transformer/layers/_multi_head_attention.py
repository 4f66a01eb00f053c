"""Multi-head attention (section 3.2.2): Concat(head_1, …, head_h) W^O, head_i = Attention(QW_i^Q, KW_i^K, VW_i^V)."""

import keras
from keras import ops

from tf_transformer.layers._attention import combine_masks, first_mask, scaled_dot_product_attention
from tf_transformer.layers._blockwise_attention import blockwise_attention
from tf_transformer.layers._projection import Projection


@keras.saving.register_keras_serializable(package="tf_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """Attention in several subspaces at once, over the sequence itself or over another one.

    The widths of keys, of values and of the model are independent (Table 3, row B changes d_k alone). Keras masks of
    both inputs are taken up: that of the value hides padded keys, that of the query passes through.

    Args:
        num_heads: h.
        key_dim: d_k, width of a head's queries and keys.
        value_dim: d_v, width of a head's values; None: as `key_dim`.
        use_bias: whether the four projections have a bias.
        dropout: of the attention weights; the paper states none.
        block_size: None, or the number of keys at a time for blockwise attention, which never holds all weights.
        transposed_kernels: whether the projections keep their kernels as (out, in); see `Projection`.

    Call arguments:
        query: (B, T, D).
        value: (B, S, M), the source of keys and values; None: `query`, self-attention.
        attention_mask: boolean (B, T, S), or (B, S) for keys alone; True = may attend.
        use_causal_mask: whether position t attends to 0 … t only.
        return_attention: whether the weights (B, H, T, S) are returned too.

    Returns:
        (B, T, D), or this and the weights.

    Example:
        >>> attention = MultiHeadAttention(num_heads=8, key_dim=64)
        >>> attention(keras.ops.ones((2, 5, 512)), keras.ops.ones((2, 7, 512))).shape
        TensorShape([2, 5, 512])
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        use_bias=True,
        dropout=0.0,
        block_size=None,
        transposed_kernels=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        for name, size in (("num_heads", num_heads), ("key_dim", key_dim), ("value_dim", value_dim or key_dim)):
            if size < 1:
                raise ValueError(f"MultiHeadAttention's {name} must be at least 1, not {size}.")
        if block_size is not None and dropout:
            raise ValueError(
                f"Blockwise attention (block_size={block_size}) never holds the weights that dropout={dropout} would "
                "fall on: set attention dropout to 0 or block_size to None."
            )
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim or key_dim
        self.use_bias = use_bias
        self.dropout = dropout
        self.block_size = block_size
        self.transposed_kernels = transposed_kernels
        self.supports_masking = True

    def build(self, query_shape, value_shape=None):
        value_shape = value_shape or query_shape
        if len(query_shape) != 3 or len(value_shape) != 3:
            raise ValueError(f"{self.name} expects (B, T, D) and (B, S, M); got {query_shape} and {value_shape}.")
        keys, values = self.num_heads * self.key_dim, self.num_heads * self.value_dim
        self.query = self._projection("query", keys, query_shape)
        self.key = self._projection("key", keys, value_shape)
        self.value = self._projection("value", values, value_shape)
        self.output_projection = self._projection("output", query_shape[-1], (*query_shape[:-1], values))
        self._dropout = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy, name="dropout")

    def _projection(self, name, width, input_shape):
        layer = Projection(width, self.use_bias, self.transposed_kernels, dtype=self.dtype_policy, name=name)
        layer.build(input_shape)
        return layer

    def call(
        self,
        query,
        value=None,
        attention_mask=None,
        mask=None,
        query_mask=None,
        value_mask=None,
        use_causal_mask=False,
        return_attention=False,
        training=None,
    ):
        key_mask = first_mask(query_mask, mask) if value is None else value_mask
        keys_values = self.project(query if value is None else value)
        output, weights = self._attend(
            query, keys_values, combine_masks(attention_mask, key_mask), use_causal_mask, return_attention, training
        )
        return (output, weights) if return_attention else output

    def project(self, value):
        """Keys (B, H, S, d_k) and values (B, H, S, d_v) of `value` (B, S, M): what a cache keeps."""
        return {"key": self._split_heads(self.key(value)), "value": self._split_heads(self.value(value))}

    def attend(self, query, keys_values, attention_mask=None):
        """Attention of `query` (B, T, D) to keys and values that `project` gave earlier: (B, T, D), weights."""
        return self._attend(query, keys_values, combine_masks(attention_mask), False, True, False)

    def step(self, query, cache, index, attention_mask=None):
        """Self-attention of the next positions `index` … of a sequence whose past is in `cache`.

        Args:
            query: (B, N, D), the next N positions.
            cache: {"key": (B, H, L, d_k), "value": (B, H, L, d_v)} with room for L positions, filled below `index`.
            index: scalar integer, the position of the first query.
            attention_mask: boolean, broadcastable to (B, N, L); None: each query's own past.

        Returns:
            (B, N, D) and the cache with the new positions in it.
        """
        cache = {name: _write(cache[name], new, index) for name, new in self.project(query).items()}
        if attention_mask is None:
            places = ops.arange(ops.shape(cache["key"])[2])[None, None, :]
            attention_mask = places <= index + ops.arange(ops.shape(query)[1])[None, :, None]
        output, _ = self._attend(query, cache, combine_masks(attention_mask), False, True, False)
        return output, cache

    def empty_cache(self, batch, length):
        """A cache for `step` with room for `length` positions."""
        shapes = {"key": self.key_dim, "value": self.value_dim}
        return {
            name: ops.zeros((batch, self.num_heads, length, depth), dtype=self.compute_dtype)
            for name, depth in shapes.items()
        }

    def _attend(self, query, keys_values, mask, causal, with_weights, training):
        heads = self._split_heads(self.query(query))
        key, value = keys_values["key"], keys_values["value"]
        if self.block_size and not with_weights:
            attended, weights = blockwise_attention(heads, key, value, mask, causal, self.block_size), None
        else:
            dropout = self._dropout if self.dropout else None
            attended, weights = scaled_dot_product_attention(heads, key, value, mask, causal, dropout, training)
        return self.output_projection(self._join_heads(attended)), weights

    def _split_heads(self, x):
        """(B, T, H * d) -> (B, H, T, d)."""
        batch, length, depth = ops.shape(x)[0], ops.shape(x)[1], x.shape[-1] // self.num_heads
        return ops.transpose(ops.reshape(x, (batch, length, self.num_heads, depth)), (0, 2, 1, 3))

    def _join_heads(self, x):
        """(B, H, T, d) -> (B, T, H * d)."""
        batch, length = ops.shape(x)[0], ops.shape(x)[2]
        return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, length, self.num_heads * self.value_dim))

    def compute_mask(self, query, previous_mask=None):
        return previous_mask

    def compute_output_shape(self, query_shape, value_shape=None):
        return query_shape

    def compute_output_spec(self, *args, **kwargs):
        # Traced, because `return_attention` changes the structure of what is returned.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        names = ("num_heads", "key_dim", "value_dim", "use_bias", "dropout", "block_size", "transposed_kernels")
        return super().get_config() | {name: getattr(self, name) for name in names}


def _write(cache, new, index):
    """`cache` (B, H, L, d) with `new` (B, H, N, d) at places `index` … `index` + N - 1."""
    count = ops.shape(new)[2]
    places = ops.arange(ops.shape(cache)[2]) - index
    spread = ops.take(new, ops.clip(places, 0, count - 1), axis=2)
    here = ops.logical_and(places >= 0, places < count)[None, None, :, None]
    return ops.where(here, spread, cache)
