"""The choice of heads for word alignment: the head that aligns as it should is found, with and without gold."""

import dataclasses

import numpy as np
import pytest
from toy_workdir import TOY, randomize, toy_tokenizers

from tf_transformer.analysis.attention import _alignment, candidates_text, compare_alignment_heads
from tf_transformer.config import DecodingConfig
from tf_transformer.decoding import Translator
from tf_transformer.evaluation import alignment_score
from tf_transformer.model import Transformer

pytestmark = pytest.mark.long

PAIRS = [("the dog is old", "my cat sees a tree"), ("the red house", "a big river"), ("dog", "cat")]


@pytest.fixture(scope="module")
def tokenizers():
    return toy_tokenizers()


@pytest.fixture(scope="module")
def model(tokenizers):
    config = dataclasses.replace(TOY, num_layers=1, num_decoder_layers=2, vocab_size=tokenizers.source.vocab_size)
    model = Transformer(config)
    randomize(model)
    return model


def test_candidates_are_heads_layers_and_upper_layers(model):
    names = _alignment.candidate_heads(model.config)
    assert list(names) == ["1.1", "1.2", "1.3", "1", "1,2", "2.1", "2.2", "2.3", "2"]
    assert all(shares.sum() == pytest.approx(1) for shares in names.values())
    np.testing.assert_allclose(names["2"], [[0, 0, 0], [1 / 3, 1 / 3, 1 / 3]])


def test_error_rates_are_those_of_the_translator(model, tokenizers):
    gold = [({(0, 0), (1, 1)}, {(2, 2)}), ({(2, 2)}, set()), ({(0, 0)}, set())]
    found = compare_alignment_heads(model, tokenizers, PAIRS, gold)
    assert [each.error_rate for each in found] == sorted(each.error_rate for each in found)
    sure, possible = zip(*gold)
    for each in (found[0], next(each for each in found if each.heads == "1,2")):
        translator = Translator(model, tokenizers, DecodingConfig(alignment_heads=each.heads))
        links = [aligned.links for aligned in translator.align(*zip(*PAIRS))]
        assert alignment_score(links, sure, possible).error_rate == pytest.approx(each.error_rate)


def test_agreement_is_the_share_of_mutual_choices(model, tokenizers, monkeypatch):
    sharp = np.zeros((2, 9, 3, 4), "float32")
    sharp[:, 5] = [[0.1, 0.2, 0.6, 0.1], [0.9, 0.1, 0, 0], [0, 0, 0.1, 0.9]]  # forward 2, 0, 3; backward 1, 0, 0, 2
    monkeypatch.setattr(_alignment, "_batches", lambda *_: [([0, 1], sharp)])
    found = compare_alignment_heads(model, tokenizers, PAIRS[:2])
    assert found[0] == ("2.1", pytest.approx(2 * 3 / (3 + 4)), None)
    assert [each.agreement for each in found[1:]] == [0.0] * 8
    assert candidates_text(found).splitlines()[1].split() == ["2.1", "85.7%", "-"]


def test_pairs_are_needed(model, tokenizers):
    with pytest.raises(ValueError, match=r"Expected sentence pairs .* Received: none"):
        compare_alignment_heads(model, tokenizers, [])
