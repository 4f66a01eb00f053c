"""Unknown pieces: never produced unless that is asked for, and replaced by the source text they are aligned with."""

import dataclasses
import re

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st
from toy_workdir import TOY, randomize, toy_sentences, toy_tokenizers

from tf_transformer.config import DecodingConfig
from tf_transformer.decoding import Translator
from tf_transformer.decoding._sentence_translator import _joined, _surfaces, forbidden_unk
from tf_transformer.model import Transformer
from tf_transformer.text import train_tokenizer

SEARCH = DecodingConfig(beam_size=2, max_source_length=29, max_extra_length=3, failure_detection=False)


@pytest.fixture(scope="module")
def tokenizers():
    return toy_tokenizers()


@pytest.fixture(scope="module")
def model(tokenizers):
    """A model that prefers UNK to everything, EOS included."""
    size = tokenizers.source.vocab_size
    config = dataclasses.replace(TOY, num_layers=1, num_decoder_layers=2, vocab_size=size, output_bias=True)
    model = Transformer(config)
    randomize(model, scale=0.5)
    (bias,) = (weight for weight in model.weights if weight.path.endswith("bias") and weight.shape == (size,))
    bias.assign(np.where(np.arange(size) == tokenizers.target.unk_id, 50.0, 0.0))
    return model


def translator(model, tokenizers, **changes):
    return Translator(model, tokenizers, dataclasses.replace(SEARCH, **changes))


def test_byte_fallback_decides_whether_unk_is_masked(tokenizers):
    texts = [f"{first}{second}a" for first in "abcdefghijklmnopqrst" for second in "abcdefghijklmnopqrst"]
    bytes_too = train_tokenizer(texts, 600)
    assert bytes_too.byte_fallback and not tokenizers.target.byte_fallback
    for unknown, ours, theirs in (("copy", [1], []), ("never", [1], [1]), ("keep", [], [])):
        config = DecodingConfig(unknown=unknown)
        assert forbidden_unk(config, bytes_too) == ours
        assert forbidden_unk(config, tokenizers.target) == theirs


@pytest.mark.long
def test_unk_is_produced_only_if_it_is_kept(model, tokenizers):
    texts = toy_sentences(9, seed=3)
    kept = translator(model, tokenizers, unknown="keep")
    assert all("⁇" in text for text in kept(texts))
    never = translator(model, tokenizers, unknown="never")
    source = never._read(tf.constant(texts))
    assert not (never._search(source).ids.numpy() == tokenizers.target.unk_id).any()
    assert (kept._search(source).ids.numpy() == tokenizers.target.unk_id).any()


@pytest.mark.long
def test_unk_is_replaced_by_the_aligned_source_text(model, tokenizers):
    texts = ["a big ☃ dog.", "the Łódź river", "", *toy_sentences(5, seed=4)]
    copying = translator(model, tokenizers)
    found = copying(texts)
    assert set(found[0].replace(" ", "")) == {"☃"}
    assert set(found[1].replace(" ", "")) <= {"Ł", "ó", "ź"}
    assert found[2] == ""
    for source, text in zip(texts[3:], found[3:]):
        assert text and "⁇" not in text and all(letter in source for letter in text)
    assert [copying([text])[0] for text in texts] == found
    assert [row.texts[0] for row in copying.nbest(texts)] == found
    assert all("⁇" not in text for row in copying.nbest(texts) for text in row.texts)


@pytest.mark.long
def test_alignment_has_the_same_text_and_the_words_of_it(model, tokenizers):
    texts = ["a big ☃ dog.", "the Łódź river", "", b"a \xff dog", *toy_sentences(5, seed=4)]
    copying = translator(model, tokenizers)
    found = copying.align(texts)
    assert [row.translation for row in found] == copying(texts)
    assert "".join(word.text for word in found[0].target) == found[0].translation.replace(" ", "")
    for row in found:
        assert all(row.translation[word.start : word.end] == word.text for word in row.target)
    # Each word was written by a piece.
    assert all(confidence > 0 for row in found for confidence in row.confidences)


@hypothesis.settings(derandomize=True, deadline=None, max_examples=60)
@hypothesis.given(st.lists(st.text(" aé\t", max_size=4), min_size=1, max_size=7))
def test_joined_pieces_are_where_their_text_is(pieces):
    text, starts, ends = (column.numpy()[0] for column in _joined(tf.constant([pieces])))
    assert text.decode() == re.sub(" +", " ", "".join(pieces)).strip(" \t")
    for piece, start, end in zip(pieces, starts, ends):
        assert text[start:end].decode().strip(" \t") == piece.strip(" \t") or " " in piece.strip(" \t")
    assert list(starts) == sorted(starts) and list(ends) == sorted(ends)


def test_pieces_have_the_text_they_stand_for(tokenizers):
    text = "a ☃ dog & Łód"
    surfaces = _surfaces(tokenizers.source, tf.constant([text, "dog"]), tf.constant(20)).numpy()
    assert surfaces.shape == (2, 20)
    assert b"".join(surfaces[0]).decode() == text and b"".join(surfaces[1]) == b"dog"
    pieces = tokenizers.source.encode(text)
    unknown = surfaces[0][: len(pieces)][np.array(pieces) == tokenizers.source.unk_id]
    assert next(surface.decode().strip() for surface in unknown) == "☃"


def test_pieces_are_joined_as_detokenize_joins_them(tokenizers):
    ids = tokenizers.target.tokenize(tf.constant(toy_sentences(7, seed=5))).to_tensor()
    joined = tf.strings.reduce_join(tokenizers.target.piece_texts(ids), axis=1)
    assert tf.strings.strip(joined).numpy().tolist() == tokenizers.target.detokenize(ids).numpy().tolist()
