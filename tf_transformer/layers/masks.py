"""Attention masks: boolean, True where a query may attend to a key."""

from keras import ops


def padding_mask(ids, pad_id: int = 0):
    """True where `ids` (B, S) are not padding: (B, S)."""
    return ops.not_equal(ids, pad_id)


def causal_mask(queries, keys=None, offset=0):
    """True where key s is not after query t, which stands at position offset + t: (T, S)."""
    keys = queries if keys is None else keys
    return ops.arange(keys)[None, :] <= ops.arange(queries)[:, None] + offset


def segment_mask(query_segments, key_segments):
    """True where both belong to one sentence of a packed row: (B, T), (B, S) -> (B, T, S). Segment 0 is padding."""
    same = ops.equal(query_segments[:, :, None], key_segments[:, None, :])
    return ops.logical_and(same, ops.not_equal(key_segments[:, None, :], 0))


def combine_masks(*masks):
    """True where all the given masks are: (B, T, S) with axes of 1 where they do not matter, or None for none.

    A mask of rank 2 is one of keys, (B, S); one of rank 3 is broadcastable to (B, T, S); None does not count.
    """
    combined = None
    for mask in masks:
        if mask is None:
            continue
        mask = ops.cast(mask, "bool")
        mask = mask[:, None, :] if len(mask.shape) == 2 else mask
        combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def first_mask(*masks):
    """The first mask that is not None.

    Keras hands a layer the mask of its first input as `mask` when that is the only tensor of the call, and as
    `<name>_mask` when there are several: a layer that may meet both has both arguments and takes what came.
    """
    return next((mask for mask in masks if mask is not None), None)
