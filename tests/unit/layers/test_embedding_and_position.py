"""Embedding and positions: scale, tying, precision, length, errors."""

import keras
import numpy as np
import pytest
from keras import ops
from numpy_reference import position

from tf_transformer import layers
from tf_transformer.layers._position import sinusoidal_encoding


def test_embeddings_are_scaled_rows_and_logits_use_the_same_matrix():
    layer = layers.SharedEmbedding(11, 16)
    rows = ops.convert_to_numpy(layer(np.array([[3, 5]])))
    table = ops.convert_to_numpy(layer.table)
    np.testing.assert_allclose(rows[0], table[[3, 5]] * 4.0, rtol=1e-6)
    hidden = np.random.default_rng(0).normal(size=(2, 3, 16)).astype("float32")
    logits = ops.convert_to_numpy(layer.logits(ops.array(hidden)))
    np.testing.assert_allclose(logits, hidden @ table.T, rtol=1e-4, atol=1e-5)


def test_embeddings_begin_with_the_spread_of_the_paper():
    layer = layers.SharedEmbedding(2003, 64)
    layer.build()
    assert abs(layer.table.numpy().std() - 64**-0.5) < 0.002


@pytest.mark.parametrize("ids", [[[11]], [[-1]]])
def test_ids_outside_the_vocabulary_are_rejected(ids):
    with pytest.raises(ValueError, match=r"expects ids from 0 to 10\. Received: ids from"):
        layers.SharedEmbedding(11, 4)(np.array(ids))


def test_text_that_was_not_tokenized_is_rejected():
    with pytest.raises(ValueError, match=r"expects integer ids\. Received: dtype float32\. Tokenize"):
        layers.SharedEmbedding(11, 4)(np.ones((1, 2), "float32"))


@pytest.mark.parametrize("kind", ["sinusoidal", "t2t", "marian"])
def test_sinusoids_are_the_formula(kind):
    ours = sinusoidal_encoding(ops.arange(41), 26, kind)
    np.testing.assert_allclose(ours, position(41, 26, kind), atol=2e-6)


def test_sinusoids_by_hand():
    got = ops.convert_to_numpy(layers.PositionalEncoding()(ops.zeros((1, 2, 4))))[0]
    np.testing.assert_allclose(got, [[0, 1, 0, 1], [0.841471, 0.540302, 0.00999983, 0.99995]], atol=1e-6)


def test_sinusoids_are_right_far_out():
    ours = sinusoidal_encoding(ops.arange(100_000, 100_003), 26)
    np.testing.assert_allclose(ours, position(3, 26, start=100_000), atol=5e-4)


def test_positions_are_not_rounded_to_bfloat16():
    layer = layers.PositionalEncoding(dtype="mixed_bfloat16")
    low = ops.convert_to_numpy(ops.cast(layer(ops.zeros((1, 1000, 8))), "float32"))[0]
    # bfloat16 could not tell position 999 from 1000: the angle is computed in float32, only the sum is rounded.
    np.testing.assert_allclose(low, position(1000, 8), atol=0.005)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_positions_can_be_given(kind):
    layer = layers.PositionalEncoding(kind, max_positions=31)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    whole = ops.convert_to_numpy(layer(x))
    order = np.array([4, 0, 3, 1, 2])
    shuffled = ops.convert_to_numpy(layer(x[:, order], positions=np.stack([order, order])))
    np.testing.assert_allclose(shuffled, whole[:, order], atol=1e-6)


def test_what_does_not_fit_is_rejected():
    with pytest.raises(ValueError, match=r"4 learned positions\. Received: a sequence of 5"):
        layers.PositionalEncoding("learned", max_positions=4)(np.ones((1, 5, 8), "float32"))
    with pytest.raises(ValueError, match=r"even width for sines and cosines\. Received: width 7"):
        layers.PositionalEncoding()(np.ones((1, 5, 7), "float32"))
    with pytest.raises(ValueError, match=r"kind must be one of .*Received: kind='rotary'"):
        layers.PositionalEncoding("rotary")


def test_logits_in_a_functional_model_follow_the_table():
    """Operations on a weight outside of a layer's call would make a constant of it."""
    ids = keras.Input((None,), dtype="int32")
    layer = layers.SharedEmbedding(11, 4)
    model = keras.Model(ids, layer(layer(ids), reverse=True))
    assert model.output_shape == (None, None, 11)
    layer.table.assign(2 * layer.table)
    table = layer.table.numpy()
    logits = ops.convert_to_numpy(model(np.array([[5, 6]])))
    np.testing.assert_allclose(logits[0], 2 * table[[5, 6]] @ table.T, rtol=1e-4)


def test_positions_may_count_from_an_offset():
    got = layers.PositionalEncoding("t2t", offset=2)(ops.zeros((1, 5, 26)))
    np.testing.assert_allclose(got[0], position(5, 26, "t2t", start=2), atol=2e-6)
    with pytest.raises(ValueError, match=r"offset must be 0 for learned positions.* Received: offset=1"):
        layers.PositionalEncoding("learned", offset=1)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int8"])
def test_ids_of_small_types_are_looked_up(dtype):
    embedding = layers.SharedEmbedding(23, 4)
    ids = np.array([[5, 3]])
    np.testing.assert_array_equal(embedding(ids.astype(dtype)), embedding(ids))


def test_an_embedding_without_an_input_of_ids_says_what_to_add():
    model = keras.Sequential([layers.SharedEmbedding(10, 8), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match=r'model begins with keras.Input\(\(None,\), dtype="int32"\)'):
        model(np.array([[1, 2]]))


def test_ids_that_were_not_embedded_are_rejected():
    with pytest.raises(ValueError, match=r"expects inputs of shape \(B, T, D\)\. Received: shape \(4, 4\)"):
        layers.PositionalEncoding()(np.ones((4, 4), "int32"))
    with pytest.raises(ValueError, match=r"Received: dtype int32\. Embed the ids first"):
        layers.PositionalEncoding()(np.ones((1, 2, 4), "int32"))
    with pytest.raises(ValueError, match=r"expects inputs of shape \(B, T, D\)\. Received: shape \(1, 8\)"):
        layers.SSRU()(np.ones((1, 8), "float32"))


@pytest.mark.parametrize("columns", [False, True])
def test_logits_of_some_ids_are_columns_of_all_logits(columns):
    with layers.inference_layout(rows=not columns):
        embedding = layers.SharedEmbedding(23, 7)
        embedding.prefer_logits()
        embedding.build()
    hidden, ids = np.random.default_rng(3).normal(size=(5, 7)).astype("float32"), np.array([7, 22, 7, 0])
    assert embedding.transposed == columns
    found = embedding.logits_of(ids)(hidden)
    np.testing.assert_allclose(found, np.asarray(embedding.logits(hidden))[:, ids], rtol=1e-5, atol=1e-6)
