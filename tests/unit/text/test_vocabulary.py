"""Training a vocabulary: sizes, what a small text supports, and the bounded sample it is trained on."""

import logging
import string

import pytest

from tf_transformer.text._model_file import TokenizerError
from tf_transformer.text._subwords import Subwords
from tf_transformer.text._vocabulary import BYTE_FALLBACK_SIZE, Subsample, default_vocab_size, train_model

TEXTS = ["the cat sat on the mat", "die Katze saß auf der Matte"] * 5


def test_the_paper_s_sizes():
    assert default_vocab_size("de", "en") == default_vocab_size("en", "de") == 37_000
    assert default_vocab_size("en", "fr") == 32_000


@pytest.mark.parametrize(
    ("pairs", "size"), [(5, 128), (200, 448), (1000, 992), (30_000, 5536), (1_000_000, 32_000), (4_500_000, 37_000)]
)
def test_a_small_corpus_has_a_small_vocabulary_by_default(pairs, size):
    assert default_vocab_size("en", "de", pairs) == size


def test_the_same_texts_give_the_same_model():
    assert train_model(TEXTS, 149) == train_model(iter(TEXTS), 149)


def test_a_default_too_large_is_reduced_and_an_explicit_one_rejected():
    largest = Subwords(train_model(TEXTS, 37_000, exact=False)).vocab_size
    assert 100 < largest < 400
    with pytest.raises(TokenizerError, match=f"of at most {largest}"):
        train_model(TEXTS, 37_000)
    assert Subwords(train_model(TEXTS, largest)).vocab_size == largest


def test_byte_fallback_takes_a_vocabulary_of_600(caplog):
    texts = [f"{first}{second}a {second}{first}o" for first in string.ascii_letters for second in string.ascii_letters]
    caplog.set_level(logging.INFO)
    assert "<0xC5>" in pieces_of(train_model(texts, BYTE_FALLBACK_SIZE))
    assert not caplog.records
    assert "<0xC5>" not in pieces_of(train_model(texts, BYTE_FALLBACK_SIZE - 1))
    assert "a vocabulary of 599 pieces has no byte fallback" in caplog.text
    assert "at least 600" in caplog.text


def pieces_of(model):
    subwords = Subwords(model)
    return subwords.pieces(range(subwords.vocab_size))


def test_more_characters_than_pieces_is_an_error():
    with pytest.raises(TokenizerError, match="for the characters of the text"):
        train_model(["".join(map(chr, range(0x4E00, 0x4F00)))], 131)


@pytest.mark.parametrize("texts", [[], ["", "  ", b"\n"]])
def test_no_text_is_an_error(texts):
    with pytest.raises(TokenizerError, match="Expected text"):
        train_model(texts, 149)


@pytest.mark.parametrize("size", [0, 5, 10**7])
def test_impossible_sizes_are_rejected(size):
    with pytest.raises(TokenizerError, match="Expected a vocabulary size from"):
        train_model(TEXTS, size)


def sample(count, seed, **bounds):
    chosen = Subsample(**({"max_texts": 101, "max_bytes": 10**9} | bounds), seed=seed)
    for i in range(count):
        chosen.add(b"%05d" % i)
    return chosen.texts()


def test_a_sample_is_bounded_seeded_and_spread():
    assert sample(5000, 3) == sample(5000, 3) != sample(5000, 4)
    chosen = sample(5000, 3)
    assert len(set(chosen)) == 101
    assert sum(text >= b"02500" for text in chosen) in range(30, 71)
    assert len(sample(5000, 3, max_bytes=53)) == 10
    assert sorted(sample(13, 3)) == [b"%05d" % i for i in range(13)]
