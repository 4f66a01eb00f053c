"""Dropout from 16 random bits per value: its rate, its scale, and when it is Keras' own."""

import keras
import numpy as np
import pytest

from tf_transformer.layers import Dropout


def dropped(rate, shape=(64, 8, 512), seed=3):
    return keras.ops.convert_to_numpy(Dropout(rate, seed=seed)(np.ones(shape, "float32"), training=True))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_rate_and_the_scale(rate):
    values = dropped(rate)
    kept = values[values != 0]
    deviation = np.sqrt(rate * (1 - rate) / values.size)
    assert abs((values == 0).mean() - rate) < 5 * deviation
    np.testing.assert_allclose(kept, 1 / (1 - rate), rtol=1e-4)
    assert len(np.unique(kept)) == 1


def test_the_expected_value_is_that_of_the_input():
    rounded = round(0.1 * 2**16) / 2**16
    assert dropped(0.1).max() == np.float32(1 / (1 - rounded))


def test_the_parts_of_a_random_number_are_independent():
    zeros = dropped(0.5, (1024, 512)) == 0
    for distance in (1, 2, 3, 4):
        both = (zeros[:, :-distance] & zeros[:, distance:]).mean()
        assert abs(both - 0.25) < 0.005
    for part in range(4):
        assert abs(zeros[:, part::4].mean() - 0.5) < 0.005


def test_the_same_seed_drops_the_same_values_and_another_call_others():
    layer = Dropout(0.5, seed=1)
    first, second = (keras.ops.convert_to_numpy(layer(np.ones((4, 64), "float32"), training=True)) for _ in range(2))
    np.testing.assert_array_equal(first, dropped(0.5, (4, 64), seed=1))
    assert (first != second).any()


def test_with_another_last_axis_or_a_noise_shape_it_is_that_of_keras():
    for shape, noise_shape in (((4, 8, 30), None), ((4, 8, 32), (4, 1, 32))):
        ours, theirs = (
            kind(0.3, noise_shape=noise_shape, seed=5)(np.ones(shape, "float32"), training=True)
            for kind in (Dropout, keras.layers.Dropout)
        )
        np.testing.assert_array_equal(ours, theirs)


def test_nothing_is_dropped_outside_of_training():
    ones = np.ones((4, 8), "float32")
    np.testing.assert_array_equal(Dropout(0.9)(ones, training=False), ones)
    np.testing.assert_array_equal(Dropout(0.0)(ones, training=True), ones)


def test_the_dtype_is_that_of_the_policy():
    assert Dropout(0.1, dtype="mixed_bfloat16")(np.ones((2, 8), "float32"), training=True).dtype == "bfloat16"
