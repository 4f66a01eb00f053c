"""Exact attention over one block of keys at a time, without the (T, S) matrix of attention weights.

The forward pass is the online softmax (Milakov and Gimelshein, 2018); the backward pass recomputes the weights of a
block from the saved log-sum-exp (Dao et al., 2022, without the fused kernel). Memory grows with T + S instead of T * S.
"""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from tf_transformer.layers._attention import MASKED


def blockwise_attention(
    query: Any, key: Any, value: Any, mask: Any = None, causal: bool = False, block_size: int = 256
) -> Any:
    """Compute the output of `scaled_dot_product_attention` without its attention weights.

    Args:
        query: (B, H, T, d_k).
        key: (B, H, S, d_k).
        value: (B, H, S, d_v).
        mask: boolean, (B, 1, S) for padded keys, or (B, T, S); True = may attend.
        causal: whether query t may attend to keys 0 … t only; needs no memory, unlike a mask (B, T, S).
        block_size: keys per block.

    Returns:
        (B, H, T, d_v) in the dtype of `query`. A query that may attend to nothing yields zeros.
    """
    dtype = ops.convert_to_tensor(query).dtype
    query, key, value = (ops.cast(x, "float32") for x in (query, key, value))
    if mask is None:
        mask = ops.ones((1, 1, ops.shape(key)[2]), dtype="bool")
    attend = _differentiable(_Blocks(mask, causal, block_size, ops.shape(query)[2], ops.shape(key)[2]))
    return ops.cast(attend(query * (1.0 / math.sqrt(query.shape[-1])), key, value), dtype)


class _Blocks:
    """Keys in blocks of equal size, and the mask of each block. The last block is padded with masked keys."""

    def __init__(self, mask: Any, causal: bool, size: int, queries: Any, keys: Any):
        self.size = size
        self.count = (keys + size - 1) // size
        self.causal = causal
        self.queries = queries
        self.keys = keys
        self.padding = self.count * size - keys
        self.mask = ops.cast(mask, "float32")

    def split(self, x: Any) -> Any:
        """(B, H, S, d) -> (blocks, B, H, size, d)."""
        batch, heads, depth = ops.shape(x)[0], x.shape[1], x.shape[3]
        x = ops.pad(x, ((0, 0), (0, 0), (0, self.padding), (0, 0)))
        x = ops.reshape(x, (batch, heads, self.count, self.size, depth))
        return ops.transpose(x, (2, 0, 1, 3, 4))

    def join(self, x: Any) -> Any:
        """The inverse of `split`."""
        batch, heads, depth = ops.shape(x)[1], x.shape[2], x.shape[4]
        x = ops.reshape(ops.transpose(x, (1, 2, 0, 3, 4)), (batch, heads, self.count * self.size, depth))
        return x[:, :, : self.keys]

    def allowed(self) -> Any:
        """The mask in blocks: (blocks, B, 1, T or 1, size) float32."""
        batch, rows = ops.shape(self.mask)[0], ops.shape(self.mask)[1]
        mask = ops.pad(self.mask, ((0, 0), (0, 0), (0, self.padding)))
        return ops.transpose(ops.reshape(mask, (batch, rows, self.count, self.size)), (2, 0, 1, 3))[:, :, None]

    def may_attend(self, index: Any, allowed: Any) -> Any:
        """Ones where the keys of block `index` may be attended to, else zeros: broadcastable to (B, H, T, size)."""
        if not self.causal:
            return allowed
        # In float32: on a GPU TensorFlow compares int32 in host memory.
        positions = ops.cast(index * self.size, "float32") + ops.cast(ops.arange(self.size), "float32")
        past = positions[None, :] <= ops.cast(ops.arange(self.queries), "float32")[:, None]
        return allowed * ops.cast(past, "float32")


def _differentiable(blocks: _Blocks) -> Callable:
    """Attention over `blocks` as a function of query, key and value with a custom gradient."""

    @ops.custom_gradient
    def attend(query: Any, key: Any, value: Any) -> Any:
        output, log_sum = _forward(blocks, query, key, value)

        def gradient(*args: Any, upstream: Any = None) -> Any:
            upstream = args[0] if upstream is None else upstream
            return _backward(blocks, query, key, value, output, log_sum, upstream)

        return output, gradient

    return attend


def _forward(blocks: _Blocks, query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Output (B, H, T, d_v) and log-sum-exp of the logits (B, H, T, 1)."""
    keys, values, allowed = blocks.split(key), blocks.split(value), blocks.allowed()

    def one_block(index: Any, carry: Any) -> Any:
        output, total, highest = carry
        index = _after(index, total)
        logits, may = _logits(blocks, query, keys, allowed, index)
        higher = ops.maximum(highest, ops.max(logits, axis=-1, keepdims=True))
        weights = ops.exp(logits - higher) * may
        shrink = ops.exp(highest - higher)
        output = output * shrink + ops.matmul(weights, ops.take(values, index, axis=0))
        return output, total * shrink + ops.sum(weights, axis=-1, keepdims=True), higher

    zeros = ops.zeros_like(query[..., :1])
    start = (zeros + ops.zeros((value.shape[-1],)), zeros, zeros + MASKED)
    output, total, highest = ops.fori_loop(0, blocks.count, one_block, start)
    total = ops.where(total > 0, total, ops.ones_like(total))
    return output / total, highest + ops.log(total)


def _backward(
    blocks: _Blocks, query: Any, key: Any, value: Any, output: Any, log_sum: Any, upstream: Any
) -> tuple[Any, Any, Any]:
    """Gradients of query, key and value."""
    keys, values, allowed = blocks.split(key), blocks.split(value), blocks.allowed()
    along = ops.sum(upstream * output, axis=-1, keepdims=True)  # (B, H, T, 1)

    def one_block(index: Any, carry: Any) -> Any:
        to_query, to_keys, to_values = carry
        index = _after(index, to_query)
        logits, may = _logits(blocks, query, keys, allowed, index)
        weights = ops.exp(logits - log_sum) * may
        to_weights = ops.matmul(upstream, ops.swapaxes(ops.take(values, index, axis=0), -1, -2))
        to_logits = weights * (to_weights - along)
        here = ops.reshape(index, (1, 1))
        to_keys = ops.scatter_update(to_keys, here, ops.matmul(ops.swapaxes(to_logits, -1, -2), query)[None])
        to_values = ops.scatter_update(to_values, here, ops.matmul(ops.swapaxes(weights, -1, -2), upstream)[None])
        return to_query + ops.matmul(to_logits, ops.take(keys, index, axis=0)), to_keys, to_values

    start = (ops.zeros_like(query), ops.zeros_like(keys), ops.zeros_like(values))
    to_query, to_keys, to_values = ops.fori_loop(0, blocks.count, one_block, start)
    return to_query, blocks.join(to_keys), blocks.join(to_values)


def _logits(blocks: _Blocks, query: Any, keys: Any, allowed: Any, index: Any) -> tuple[Any, Any]:
    """Masked logits of one block (B, H, T, size), and its mask as ones and zeros."""
    block = ops.take(keys, index, axis=0)
    may = blocks.may_attend(index, ops.take(allowed, index, axis=0))
    logits = ops.matmul(query, ops.swapaxes(block, -1, -2))
    return logits + (1.0 - may) * MASKED, may


def _after(index: Any, carry: Any) -> Any:
    """`index` with a data dependency on `carry` (B, H, T, …).

    TensorFlow runs independent iterations of a loop in parallel and would hold the weights of up to ten blocks.
    """
    few = carry[:1, :1, :1, :1]
    return index + ops.cast(ops.sum(ops.cast(few < few, "float32")), "int32")
