"""The layers and the whole model against the paper's formulas in NumPy; every dimension a different prime."""

import keras
import numpy as np
import numpy_reference as reference
import pytest

from tf_transformer import ModelConfig, Transformer, layers

S, T, D, H, DK, DV, F, V = 7, 5, 26, 3, 11, 13, 17, 23
DRAWS = np.random.default_rng(5)
SOURCE, TARGET = DRAWS.normal(size=(1, S, D)), DRAWS.normal(size=(1, T, D))
CONFIG = dict(num_heads=H, key_dim=DK, value_dim=DV, feed_forward_dim=F, dropout=0.1)
MODEL = dict(vocab_size=V, num_layers=2, model_dim=D, **CONFIG)


@pytest.fixture
def random():
    """Draws that do not depend on the tests before."""
    return np.random.default_rng(6)


def randomized(layer, *inputs):
    layer(*[x.astype("float32") for x in inputs])
    reference.randomize(layer)
    return layer, reference.weights_of(layer)


def assert_same(ours, theirs, tolerance=2e-5):
    np.testing.assert_allclose(np.asarray(ours)[0], theirs, atol=tolerance, rtol=tolerance)


def test_attention(random):
    mask = random.random((T, S)) > 0.3
    mask[2] = False
    query, key, value = (random.normal(size=shape) for shape in ((T, DK), (S, DK), (S, DV)))
    output, weights = layers.scaled_dot_product_attention(
        *(x[None, None].astype("float32") for x in (query, key, value)), mask[None]
    )
    expected, expected_weights = reference.attention(query, key, value, mask)
    assert_same(output[0], expected)
    assert_same(weights[0], expected_weights)


@pytest.mark.parametrize("use_bias", [True, False])
def test_multi_head_attention(random, use_bias):
    layer, weights = randomized(layers.MultiHeadAttention(H, DK, DV, use_bias=use_bias), TARGET, SOURCE)
    mask = random.random((T, S)) > 0.3
    output, maps = layer(
        TARGET.astype("float32"), SOURCE.astype("float32"), attention_mask=mask[None], return_attention_scores=True
    )
    expected, expected_maps = reference.multi_head_attention(TARGET[0], SOURCE[0], weights, H, mask)
    assert_same(output, expected)
    assert_same(maps, expected_maps)


def test_multi_head_attention_is_that_of_keras(random):
    ours = layers.MultiHeadAttention(H, DK, DV)
    theirs = keras.layers.MultiHeadAttention(H, DK, DV)
    target, source = (np.repeat(x, 2, axis=0).astype("float32") for x in (TARGET, SOURCE))
    ours(target, source), theirs(target, source)
    reference.randomize(ours)
    weights = ours.get_weights()
    theirs.set_weights([weight.reshape(slot.shape) for weight, slot in zip(weights, theirs.get_weights())])
    mask = random.random((2, T, S)) > 0.3
    np.testing.assert_allclose(
        ours(target, source, attention_mask=mask), theirs(target, source, attention_mask=mask), atol=1e-5
    )


@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_feed_forward(activation):
    layer, weights = randomized(layers.FeedForward(F, activation), SOURCE)
    assert_same(layer(SOURCE.astype("float32")), reference.feed_forward(SOURCE[0], weights, activation))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_layer(norm):
    layer, weights = randomized(layers.EncoderLayer(**CONFIG, norm=norm), SOURCE)
    expected = reference.encoder_layer(SOURCE[0], weights, ModelConfig(**MODEL, norm=norm))
    assert_same(layer(SOURCE.astype("float32")), expected)


@pytest.mark.parametrize("autoregression", ["attention", "ssru"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoder_layer(norm, autoregression):
    layer, weights = randomized(layers.DecoderLayer(autoregression=autoregression, **CONFIG, norm=norm), TARGET, SOURCE)
    config = ModelConfig(**MODEL, norm=norm, decoder_autoregression=autoregression)
    expected = reference.decoder_layer(TARGET[0], SOURCE[0], weights, config)
    assert_same(layer(TARGET.astype("float32"), SOURCE.astype("float32")), expected)


VARIANTS = {
    "paper": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 29},
    "t2t": {"norm": "pre", "positions": "t2t", "attention_bias": False},
    "M2M-100": {"norm": "pre", "positions": "t2t", "position_offset": 2},
    "mBART": {"norm": "pre", "positions": "learned", "max_positions": 29, "activation": "gelu", "embedding_norm": True},
    "marian": {"positions": "marian", "activation": "swish", "output_bias": True, "num_decoder_layers": 1},
    "separate": {"tied_embeddings": "none", "target_vocab_size": 31, "activation": "gelu", "scale_embeddings": False},
    "target tied": {"tied_embeddings": "target", "target_vocab_size": 31, "num_decoder_layers": 3},
    "student": {"decoder_autoregression": "ssru", "positions": "t2t", "output_bias": True, "num_decoder_layers": 1},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_whole_model(random, variant):
    config = ModelConfig(**MODEL | VARIANTS[variant])
    model = Transformer(config)
    reference.randomize(model, scale=0.3)
    source, target = random.integers(4, V, (1, S)), random.integers(4, V, (1, T))
    logits = model({"source": source, "target": target})
    assert logits.dtype == "float32"
    expected = reference.transformer(source[0], target[0], reference.weights_of(model), config)
    assert_same(logits, expected, tolerance=1e-4)
