"""Attention maps of a model: the arrays belong to the tokens, and files give them back."""

import numpy as np
import pytest
from toy_attention import toy_maps, toy_model, toy_tokenizers

from tf_transformer.analysis.attention._maps import KINDS, AttentionMaps, attention_maps


@pytest.fixture(scope="module")
def maps():
    return attention_maps(toy_model(), toy_tokenizers(), "the old bridge", "we read the letter")


def test_shapes_follow_layers_heads_and_tokens(maps):
    s, t = len(maps.source), len(maps.target)
    assert s != t
    assert maps.encoder.shape == (3, 5, s, s)
    assert maps.decoder.shape == (2, 5, t, t)
    assert maps.cross.shape == (2, 5, t, s)
    assert all(len(maps.queries(kind)) == maps.weights(kind).shape[2] for kind in KINDS)
    assert all(len(maps.keys(kind)) == maps.weights(kind).shape[3] for kind in KINDS)


def test_every_row_is_a_distribution(maps):
    for kind in KINDS:
        np.testing.assert_allclose(maps.weights(kind).sum(axis=-1), 1.0, atol=1e-5)


def test_the_decoder_sees_only_its_past(maps):
    future = np.triu(np.ones(maps.decoder.shape[2:]), k=1).astype(bool)
    assert (maps.decoder[..., future] == 0).all()
    assert (maps.encoder[..., np.triu(np.ones(maps.encoder.shape[2:]), k=1).astype(bool)] > 0).all()


def test_tokens_are_what_the_decoder_reads_and_writes(maps):
    tokenizer = toy_tokenizers().target
    pieces = tokenizer.pieces(tokenizer.encode("we read the letter"))
    assert maps.source[-1] == "</s>"
    assert maps.target == ["<s>", *pieces[:-1]]
    assert maps.predicted == pieces
    assert maps.queries("cross") == maps.predicted
    assert maps.queries("decoder") == maps.keys("decoder") == maps.target


def test_maps_are_the_models_own_weights():
    model, tokenizers = toy_model(), toy_tokenizers()
    maps = attention_maps(model, tokenizers, "a small bird", "the window")
    source, target = tokenizers.source.encode("a small bird"), tokenizers.target.encode("the window")
    inputs = {"source": np.array([source]), "target": np.array([[model.config.bos_id, *target[:-1]]])}
    _, weights = model(inputs, return_attention_scores=True)
    np.testing.assert_allclose(maps.cross[1, 4], np.asarray(weights["cross"][1])[0, 4], atol=1e-6)


def test_saved_maps_come_back(tmp_path):
    maps = toy_maps()
    maps.save(tmp_path / "maps.npz")
    loaded = AttentionMaps.load(tmp_path / "maps.npz")
    assert loaded.source == maps.source and loaded.target == maps.target and loaded.predicted == maps.predicted
    for kind in KINDS:
        np.testing.assert_array_equal(loaded.weights(kind), maps.weights(kind))


def test_an_unknown_kind_is_rejected():
    with pytest.raises(ValueError, match=r"kind of attention: encoder, decoder, cross\. Received: 'self'"):
        toy_maps().weights("self")
