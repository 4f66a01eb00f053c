"""Exact attention a block of keys at a time, which never holds the (T, S) matrix of weights.

Forward it is the online softmax (Milakov and Gimelshein, 2018); backward the weights of a block are computed again
from the saved log-sum-exp (Dao et al., 2022, without the kernel). The memory grows with T + S instead of T times S.
"""

import math

from keras import ops

from tf_transformer.layers._attention import MASKED


def blockwise_attention(query, key, value, mask=None, causal=False, block_size=256):
    """What `scaled_dot_product_attention` gives, without its weights.

    Args:
        query: (B, H, T, d_k).
        key: (B, H, S, d_k).
        value: (B, H, S, d_v).
        mask: boolean, (B, 1, S) for keys that are padding, or (B, T, S); True = may attend.
        causal: whether query t may attend to keys 0 to t only; costs no memory, unlike a mask (B, T, S).
        block_size: keys at a time.

    Returns:
        (B, H, T, d_v) in the dtype of `query`. A query that may attend to nothing gives zeros.
    """
    dtype = ops.convert_to_tensor(query).dtype
    query, key, value = (ops.cast(x, "float32") for x in (query, key, value))
    if mask is None:
        mask = ops.ones((1, 1, ops.shape(key)[2]), dtype="bool")
    attend = _differentiable(_Blocks(mask, causal, block_size, ops.shape(query)[2], ops.shape(key)[2]))
    return ops.cast(attend(query * (1.0 / math.sqrt(query.shape[-1])), key, value), dtype)


class _Blocks:
    """How keys are cut into blocks, and what is masked in each. The last block is filled up with masked keys."""

    def __init__(self, mask, causal, size, queries, keys):
        self.size = size
        self.count = (keys + size - 1) // size
        self.causal = causal
        self.queries = queries
        self.keys = keys
        self.padding = self.count * size - keys
        self.mask = ops.cast(mask, "float32")

    def cut(self, x):
        """(B, H, S, d) -> (blocks, B, H, size, d)."""
        batch, heads, depth = ops.shape(x)[0], x.shape[1], x.shape[3]
        x = ops.pad(x, ((0, 0), (0, 0), (0, self.padding), (0, 0)))
        x = ops.reshape(x, (batch, heads, self.count, self.size, depth))
        return ops.transpose(x, (2, 0, 1, 3, 4))

    def join(self, x):
        """The inverse of `cut`."""
        batch, heads, depth = ops.shape(x)[1], x.shape[2], x.shape[4]
        x = ops.reshape(ops.transpose(x, (1, 2, 0, 3, 4)), (batch, heads, self.count * self.size, depth))
        return x[:, :, : self.keys]

    def allowed(self):
        """The mask in blocks: (blocks, B, 1, T or 1, size) float32."""
        batch, rows = ops.shape(self.mask)[0], ops.shape(self.mask)[1]
        mask = ops.pad(self.mask, ((0, 0), (0, 0), (0, self.padding)))
        return ops.transpose(ops.reshape(mask, (batch, rows, self.count, self.size)), (2, 0, 1, 3))[:, :, None]

    def may_attend(self, index, allowed):
        """Ones where the keys of block `index` may be attended to, else zeros: broadcastable to (B, H, T, size)."""
        if not self.causal:
            return allowed
        positions = index * self.size + ops.arange(self.size)
        past = positions[None, :] <= ops.arange(self.queries)[:, None]
        return allowed * ops.cast(past, "float32")


def _differentiable(blocks):
    """The attention over `blocks` as a function of query, key and value with its gradient written out."""

    @ops.custom_gradient
    def attend(query, key, value):
        output, log_sum = _forward(blocks, query, key, value)

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            return _backward(blocks, query, key, value, output, log_sum, upstream)

        return output, gradient

    return attend


def _forward(blocks, query, key, value):
    """Output (B, H, T, d_v) and log-sum-exp of the logits (B, H, T, 1)."""
    keys, values, allowed = blocks.cut(key), blocks.cut(value), blocks.allowed()

    def one_block(index, carry):
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


def _backward(blocks, query, key, value, output, log_sum, upstream):
    keys, values, allowed = blocks.cut(key), blocks.cut(value), blocks.allowed()
    along = ops.sum(upstream * output, axis=-1, keepdims=True)  # (B, H, T, 1)

    def one_block(index, carry):
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


def _logits(blocks, query, keys, allowed, index):
    """Logits of one block (B, H, T, size), masked, and what may be attended to as ones and zeros."""
    block = ops.take(keys, index, axis=0)
    may = blocks.may_attend(index, ops.take(allowed, index, axis=0))
    logits = ops.matmul(query, ops.swapaxes(block, -1, -2))
    return logits + (1.0 - may) * MASKED, may


def _after(index, carry):
    """`index`, known only once `carry` (B, H, T, …) is: keeps TensorFlow from computing blocks ahead of their turn.

    Its loops run iterations side by side where they can, and would hold the weights of up to ten blocks at once.
    """
    few = carry[:1, :1, :1, :1]
    return index + ops.sum(ops.cast(few < few, "int32"))
