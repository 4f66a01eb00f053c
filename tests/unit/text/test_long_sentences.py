import functools

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st
from toy_workdir import toy_tokenizers

from tf_transformer.text import BYTES_PER_TOKEN, Segmenter, join_segments, normalize_text, split_long_sentences

pytestmark = pytest.mark.long

STRINGS = [tf.TensorSpec([None], tf.string)]


@functools.cache
def tokenizer():
    return toy_tokenizers().source


@functools.cache
def splitting(limit: int):
    segmenter, made = Segmenter("en"), tokenizer()  # not while the function is traced
    return tf.function(lambda text: split_long_sentences(segmenter.segment(text), made, limit), STRINGS)


def split(texts, limit: int):
    found, long = splitting(limit)(tf.constant(texts, tf.string, [len(texts)]))
    return found.sentences.to_list(), found.separators.to_list(), long.numpy().tolist()


def test_sentences_within_the_limit_stay_as_they_are():
    text = "a dog, a cat. The house."
    sentences, separators, long = split([text, ""], 64)
    assert sentences == [[b"a dog, a cat.", b"The house."], [b""]]
    assert separators == [[b"", b" ", b""], [b"", b""]] and long == [False, False]


def test_a_long_sentence_is_split_at_clauses_first():
    text = "the dog sees the cat, the cat sees the house; the house is red."
    sentences, separators, long = split([text], 13)
    assert sentences == [[b"the dog sees the cat,", b"the cat sees the house;", b"the house is red."]]
    assert separators == [[b"", b" ", b" ", b""]] and long == [True]


def test_a_long_clause_is_split_at_spaces_and_a_long_word_anywhere():
    sentences, separators, _ = split(["the dog " * 20, "x" * 100], 13)
    assert len(sentences[0]) > 2 and set(separators[0][1:-1]) == {b" "}
    assert all(sentence.startswith((b"the", b"dog")) for sentence in sentences[0])
    assert len(sentences[1]) > 2 and set(separators[1]) == {b""}


def test_only_the_rows_with_long_sentences_are_flagged():
    assert split(["a dog.", "the dog " * 20 + ". The cat.", ""], 13)[2] == [False, True, False]
    assert split([], 13) == ([], [], [])


@pytest.mark.parametrize("unit", ["a", "a ", "a, ", "。", "\u3000"])
def test_a_large_row_is_split_too(unit):
    sentences, separators, _ = split([unit * 20_000], 64)
    text = unit * 20_000
    joined = b"".join(before + sentence for before, sentence in zip(separators[0], sentences[0])) + separators[0][-1]
    assert joined == text.encode()
    assert max(len(tokenizer().encode(sentence)) for sentence in sentences[0]) <= 64
    assert max(map(len, sentences[0])) <= 64 * BYTES_PER_TOKEN


WORDS = st.sampled_from(["dog", "the", "x" * 40, "日本語、", "word, ", "; ", ". ", " ", "\n", "é", "\xa0", "1,000 "])
TEXTS = st.one_of(st.binary(max_size=60), st.lists(WORDS, max_size=30).map(lambda words: "".join(words).encode()))


@hypothesis.settings(max_examples=100, deadline=None, derandomize=True)
@hypothesis.given(st.lists(TEXTS, max_size=3), st.sampled_from([8, 13]))
def test_nothing_is_lost_and_every_sentence_fits(texts, limit):
    texts = tf.constant(texts, tf.string, [len(texts)])
    found, _ = splitting(limit)(texts)
    assert join_segments(found).numpy().tolist() == normalize_text(texts).numpy().tolist()
    assert all(len(tokenizer().encode(sentence)) <= limit for sentence in found.sentences.flat_values.numpy())
