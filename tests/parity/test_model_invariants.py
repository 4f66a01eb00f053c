"""Invariants of the model: causality, padding, packing, batches."""

import numpy as np
import pytest
from numpy_reference import randomize

from tf_transformer import ModelConfig, Transformer

SIZES = dict(
    vocab_size=23, num_layers=2, model_dim=26, num_heads=3, key_dim=11, value_dim=13, feed_forward_dim=17, dropout=0.1
)
VARIANTS = {
    "paper": {},
    "pre-norm": {"norm": "pre", "positions": "t2t"},
    "blockwise": {"attention_block_size": 3},
    "learned": {"positions": "learned", "max_positions": 29, "tied_embeddings": "none"},
    "ssru": {"decoder_autoregression": "ssru"},
}
DRAWS = np.random.default_rng(11)
SOURCE, TARGET = DRAWS.integers(4, 23, (3, 7)), DRAWS.integers(4, 23, (3, 5))
SOURCE[1, 4:] = 0


@pytest.fixture(params=VARIANTS)
def model(request):
    model = Transformer(ModelConfig(**SIZES | VARIANTS[request.param]))
    randomize(model, scale=0.3)
    return model


def logits_of(model, source=SOURCE, target=TARGET, **more):
    return np.asarray(model({"source": source, "target": target, **more}))


def test_the_future_changes_nothing(model):
    changed = TARGET.copy()
    changed[:, 3:] = np.random.default_rng(12).integers(4, 23, (3, 2))
    before, after = logits_of(model), logits_of(model, target=changed)
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert np.abs(before[:, 3] - after[:, 3]).max() > 1e-3


def test_padding_changes_nothing(model):
    padded = logits_of(model, np.pad(SOURCE, ((0, 0), (0, 4))), np.pad(TARGET, ((0, 0), (0, 3))))
    np.testing.assert_allclose(padded[:, :5], logits_of(model), atol=1e-5)


def test_a_row_alone_is_the_row_in_a_batch(model):
    together = logits_of(model)
    for row in range(3):
        alone = logits_of(model, SOURCE[row : row + 1], TARGET[row : row + 1])
        np.testing.assert_allclose(alone[0], together[row], atol=1e-5)


def test_packed_sentences_are_what_they_are_alone(model):
    first, second = (SOURCE[:1], TARGET[:1]), (SOURCE[2:, :3], TARGET[2:, :4])
    packed = logits_of(
        model,
        np.concatenate([first[0], second[0], [[0]]], axis=1),
        np.concatenate([first[1], second[1], [[0]]], axis=1),
        source_segments=np.array([[1] * 7 + [2] * 3 + [0]]),
        target_segments=np.array([[1] * 5 + [2] * 4 + [0]]),
        source_positions=np.array([[*range(7), *range(3), 0]]),
        target_positions=np.array([[*range(5), *range(4), 0]]),
    )
    np.testing.assert_allclose(packed[:, :5], logits_of(model, *first), atol=1e-5)
    np.testing.assert_allclose(packed[:, 5:9], logits_of(model, *second), atol=1e-5)


def test_a_source_of_padding_alone_stays_finite(model):
    assert np.isfinite(logits_of(model, np.zeros_like(SOURCE))).all()


def test_attention_weights_of_every_layer(model):
    logits, weights = model({"source": SOURCE, "target": TARGET}, return_attention_scores=True)
    np.testing.assert_allclose(logits, logits_of(model), atol=1e-5)
    assert [w.shape for w in weights["encoder"]] == [(3, 3, 7, 7)] * 2
    if model.config.decoder_autoregression == "attention":
        assert [w.shape for w in weights["decoder"]] == [(3, 3, 5, 5)] * 2
        assert not np.triu(weights["decoder"][0][0, 0], 1).any()
    assert [w.shape for w in weights["cross"]] == [(3, 3, 5, 7)] * 2
    assert not np.asarray(weights["cross"][1])[1, :, :, 4:].any()
