"""Masks: True means may attend."""

import numpy as np
from keras import ops

from tf_transformer.layers import combine_masks, padding_mask, segment_mask


def test_padding_mask_is_true_on_words():
    mask = ops.convert_to_numpy(padding_mask(ops.array([[5, 3, 0], [4, 0, 0]])))
    np.testing.assert_array_equal(mask, [[True, True, False], [True, False, False]])


def test_segment_mask_keeps_sentences_apart_and_hides_padding():
    mask = ops.convert_to_numpy(segment_mask(ops.array([[1, 2, 0]]), ops.array([[1, 1, 2, 0]])))
    np.testing.assert_array_equal(mask[0], [[True, True, False, False], [False, False, True, False], [False] * 4])


def test_combine_masks_broadcasts_keys_over_queries():
    keys = np.array([[True, False]])
    full = np.array([[[True, True], [False, True], [True, False]]])
    combined = ops.convert_to_numpy(combine_masks(keys, None, full))
    np.testing.assert_array_equal(combined, [[[True, False], [False, False], [True, False]]])
    assert combine_masks(None, None) is None
