"""Scaled dot-product attention (section 3.2.1): softmax(Q K^T / sqrt(d_k)) V, and its masks."""

import math
from typing import Any

from keras import ops

from tf_transformer.layers._arguments import check_rank

# Added to the logits of masked positions. Finite, so that a fully masked row stays finite; after the softmax's
# subtraction of the maximum it underflows to a weight of exactly zero.
MASKED = -1e9


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    causal: bool = False,
    dropout: Any = None,
    training: bool | None = None,
) -> tuple[Any, Any]:
    """Compute the mean of `value`, weighted by the similarity of `query` and `key`.

    Logits and softmax are float32 whatever the policy. A query that may attend to nothing yields zeros.

    Args:
        query: (B, H, T, d_k).
        key: (B, H, S, d_k).
        value: (B, H, S, d_v).
        mask: boolean, broadcastable to (B, T, S), rank 3; True = may attend.
        causal: whether query t may attend to keys 0 … t only.
        dropout: a Keras layer applied to the attention weights, or None.
        training: passed to `dropout`.

    Returns:
        The output (B, H, T, d_v) and the attention weights (B, H, T, S), in the dtype of `query`.
    """
    query, key, value = (ops.convert_to_tensor(x) for x in (query, key, value))
    # The keys are scaled, not the queries: TensorFlow fuses a scaled query, the product and a mask (1, 1, T, S) into an
    # operation of oneDNN that is two hundred times slower on CPUs.
    logits = ops.matmul(query, ops.swapaxes(key * (1.0 / math.sqrt(query.shape[-1])), -1, -2))  # (B, H, T, S)
    logits = ops.cast(logits, "float32")
    if causal:
        mask = _with_causal(mask, ops.shape(query)[2], ops.shape(key)[2])
    if mask is not None:
        mask = ops.cast(mask, "bool")
        check_rank("scaled_dot_product_attention", "a mask", mask.shape, "(B, T, S)")
        logits = logits + (1.0 - ops.cast(mask, "float32"))[:, None] * MASKED
    weights = ops.softmax(logits, axis=-1)
    if mask is not None:
        # Only fully masked rows change: elsewhere the factor is one.
        weights = weights * ops.cast(ops.any(mask, axis=-1, keepdims=True), "float32")[:, None]
    weights = ops.cast(weights, query.dtype)
    dropped = weights if dropout is None else dropout(weights, training=training)
    return ops.matmul(dropped, value), weights


def _with_causal(mask: Any, queries: Any, keys: Any) -> Any:
    """`mask` or None, combined with the causal mask: (B or 1, T, S)."""
    # In float32: on a GPU TensorFlow compares int32 in host memory.
    places = [ops.cast(ops.arange(count), "float32") for count in (keys, queries)]
    past = (places[0][None, :] <= places[1][:, None])[None]
    return past if mask is None else ops.logical_and(mask, past)


def padding_mask(ids: Any, pad_id: int = 0) -> Any:
    """Mask of the positions that are not padding: ids (B, S) -> boolean (B, S)."""
    return ops.not_equal(ids, pad_id)


def segment_mask(query_segments: Any, key_segments: Any) -> Any:
    """Mask of the pairs within one sentence of a packed row: (B, T), (B, S) -> (B, T, S). Segment 0 is padding."""
    same = ops.equal(query_segments[:, :, None], key_segments[:, None, :])
    return ops.logical_and(same, ops.not_equal(key_segments[:, None, :], 0))


def combine_masks(*masks: Any) -> Any:
    """Combine masks with a logical and: rank 3, broadcastable to (B, T, S), or None if there is none.

    A mask of rank 2 is one of keys, (B, S); one of rank 3 is broadcastable to (B, T, S); None is ignored.
    """
    combined = None
    for mask in masks:
        if mask is None:
            continue
        mask = ops.cast(mask, "bool")
        mask = mask[:, None, :] if len(mask.shape) == 2 else mask
        combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def first_mask(*masks: Any) -> Any:
    """The first mask that is not None.

    Keras passes a layer the mask of its first input as `mask` if that is the only tensor of the call, and as
    `<name>_mask` if there are several: a layer that may be called either way has both arguments.
    """
    return next((mask for mask in masks if mask is not None), None)
