"""Every layer passes the contract, with each dimension a different prime."""

import numpy as np
import pytest
from layer_contract import run_layer_contract

from tf_transformer import layers

pytestmark = pytest.mark.long

B, S, T, D, H = 2, 7, 5, 26, 3
BLOCK = dict(num_heads=H, key_dim=11, value_dim=13, feed_forward_dim=17, dropout=0.1)

random = np.random.default_rng(0)
SOURCE = random.normal(size=(B, S, D)).astype("float32")
TARGET = random.normal(size=(B, T, D)).astype("float32")
KEYS = random.normal(size=(B, S, 23)).astype("float32")
IDS = random.integers(0, 19, (B, S)).astype("int32")

CASES = {
    "attention": (
        layers.MultiHeadAttention,
        dict(num_heads=H, key_dim=11, value_dim=13, use_bias=False),
        [TARGET, TARGET],
    ),
    "separate keys": (layers.MultiHeadAttention, dict(num_heads=H, key_dim=11), [TARGET, SOURCE, KEYS]),
    "cross-attention": (layers.MultiHeadAttention, dict(num_heads=H, key_dim=11, dropout=0.1), [TARGET, SOURCE]),
    "blockwise": (layers.MultiHeadAttention, dict(num_heads=H, key_dim=11, block_size=3), [TARGET, SOURCE]),
    "projection": (layers.Projection, dict(units=17, use_bias=False), [SOURCE]),
    "dropout": (layers.Dropout, dict(rate=0.3), [SOURCE]),
    "feed-forward": (layers.FeedForward, dict(feed_forward_dim=17, activation="gelu", dropout=0.1), [SOURCE]),
    "embedding": (layers.SharedEmbedding, dict(vocab_size=19, model_dim=D, scale_embeddings=True, pad_id=0), [IDS]),
    "positions": (layers.PositionalEncoding, dict(kind="sinusoidal", max_positions=31), [SOURCE]),
    "t2t positions": (layers.PositionalEncoding, dict(kind="t2t", offset=2), [SOURCE]),
    "marian positions": (layers.PositionalEncoding, dict(kind="marian"), [SOURCE]),
    "learned positions": (layers.PositionalEncoding, dict(kind="learned", max_positions=31), [SOURCE]),
    "encoder layer": (layers.EncoderLayer, dict(**BLOCK, activation="silu"), [SOURCE]),
    "encoder": (layers.Encoder, dict(num_layers=2, norm="pre", **BLOCK), [SOURCE]),
    "decoder layer": (layers.DecoderLayer, dict(**BLOCK, attention_bias=False), [TARGET, SOURCE]),
    "decoder": (layers.Decoder, dict(num_layers=2, **BLOCK), [TARGET, SOURCE]),
    "ssru": (layers.SSRU, dict(), [TARGET]),
    "ssru decoder": (layers.Decoder, dict(num_layers=2, autoregression="ssru", **BLOCK), [TARGET, SOURCE]),
    "decoder only": (layers.Decoder, dict(num_layers=2, norm="pre", cross_attention=False, **BLOCK), [TARGET]),
}


@pytest.mark.parametrize("case", CASES)
def test_contract(case, tmp_path):
    layer_class, arguments, inputs = CASES[case]
    run_layer_contract(layer_class, arguments, inputs, tmp_path)


@pytest.mark.parametrize("case", ["projection", "decoder"])
@pytest.mark.parametrize("transposed", [True, False])
def test_contract_with_the_layout_for_inference(case, transposed, tmp_path):
    layer_class, arguments, inputs = CASES[case]
    with layers.inference_layout(transposed):
        run_layer_contract(layer_class, arguments, inputs, tmp_path)


def test_every_public_layer_is_in_the_contract():
    tested = {layer_class.__name__ for layer_class, _, _ in CASES.values()}
    public = {name for name in layers.__all__ if isinstance(getattr(layers, name), type)}
    assert public == tested
