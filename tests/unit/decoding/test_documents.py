"""Whole texts: everything is translated, and the layout stays."""

import dataclasses

import pytest
import tensorflow as tf
from toy_workdir import TOY, randomize, toy_sentences, toy_tokenizers

from tf_transformer.config import DecodingConfig
from tf_transformer.decoding import Translator
from tf_transformer.decoding import _documents as documents
from tf_transformer.decoding._documents import translate_texts
from tf_transformer.model import Transformer
from tf_transformer.text import Segmenter

SEARCH = DecodingConfig(beam_size=2, max_source_length=13, max_extra_length=5, failure_detection=False)


@pytest.fixture(scope="module")
def tokenizers():
    return toy_tokenizers()


def shout(text, prefix=None):
    """A translation that anyone can check: upper case."""
    translation = tf.strings.upper(text, encoding="utf-8")
    translation = translation if prefix is None else tf.strings.join([prefix, translation])
    return {"translation": translation, "truncated": text == "cut."}


def shouted(tokenizers, texts, limit=64, **options):
    function = tf.function(
        lambda text: translate_texts(shout, Segmenter("en"), tokenizers.source, limit, text, **options),
        [tf.TensorSpec([None], tf.string)],
    )
    found = function(tf.constant(texts, tf.string, [len(texts)]))
    return [text.decode() for text in found["translation"].numpy()], found["sentences"].numpy().tolist(), found


def test_layout_is_kept(tokenizers):
    text = "title\n\n  - a dog. The cat.\n\t* the house\r\n1. old\n\nlast line \n"
    assert shouted(tokenizers, [text, "", " \n"])[:2] == ([text.upper(), "", " \n"], [6, 0, 0])


def test_one_sentence_is_the_whole_row_where_that_is_asked_for(tokenizers):
    texts = ["  - a dog. ", "a dog. The cat. ", "\n"]
    assert shouted(tokenizers, texts, keep_single=True)[0] == ["- A DOG.", "A DOG. THE CAT. ", ""]
    assert shouted(tokenizers, texts)[0] == ["  - A DOG. ", "A DOG. THE CAT. ", "\n"]


def test_long_sentences_are_split_and_flagged(tokenizers):
    texts = ["a dog.", "the dog " * 30 + "end. The cat.", "x" * 200]
    translations, sentences, found = shouted(tokenizers, texts, limit=13)
    assert translations[:2] == [text.upper() for text in texts[:2]]
    assert translations[2].replace(" ", "") == texts[2].upper()
    assert sentences == [1, 2, 1]
    assert found["warnings"].numpy().tolist() == [b"", b"split", b"split"]


def test_what_the_model_truncates_is_flagged(tokenizers):
    _, _, found = shouted(tokenizers, ["a dog. cut.", "The dog. Cut.", "The dog.\ncut.\nThe cat."])
    assert found["warnings"].numpy().tolist() == [b"", b"", b"truncated"]
    assert found["truncated"].numpy().tolist() == [False, False, True]


def test_a_prefix_is_that_of_the_first_sentence(tokenizers):
    prefix = tf.constant(["<1>", "<2>"])
    assert shouted(tokenizers, ["a dog. The cat.", "The house."], prefix=prefix)[0] == [
        "<1>A DOG. THE CAT.",
        "<2>THE HOUSE.",
    ]


def test_space_between_sentences_is_that_of_the_target_language(tokenizers):
    table = {"你好。": "Hello.", "再见。": "Bye.", "Hello.": "你好。", "Bye.": "再见。"}

    def translate(text):
        for source, target in table.items():
            text = tf.where(text == source, f"={target}", text)
        return {"translation": tf.strings.regex_replace(text, "^=", ""), "truncated": tf.zeros_like(text, tf.bool)}

    text = tf.constant(["你好。再见。", "Hello. Bye.", "Hello.\nBye.", "你好。Bye.", "\u3000你好。"])
    found = translate_texts(translate, Segmenter(), tokenizers.source, 64, text)["translation"]
    expected = ["Hello. Bye.", "你好。再见。", "你好。\n再见。", "Hello. 再见。", "\u3000Hello."]
    assert [each.decode() for each in found.numpy()] == expected


def test_many_sentences_are_translated_in_groups(tokenizers, monkeypatch):
    monkeypatch.setattr(documents, "SENTENCES", 7)
    text = " ".join(f"Number {number} is here." for number in range(40))
    assert shouted(tokenizers, [text, "", text])[0] == [text.upper(), "", text.upper()]
    assert shouted(tokenizers, [])[:2] == ([], [])


@pytest.fixture(scope="module")
def translator(tokenizers):
    config = dataclasses.replace(TOY, num_layers=1, num_decoder_layers=1, vocab_size=tokenizers.source.vocab_size)
    model = Transformer(config)
    randomize(model)
    return Translator(model, tokenizers, SEARCH)


@pytest.mark.long
def test_every_sentence_of_a_text_is_translated(translator):
    sentences = [text.capitalize() for text in toy_sentences(5, seed=4)]
    alone = translator(sentences)
    text = f"{sentences[0]} {sentences[1]}\n\n- {sentences[2]}\n{sentences[3]}\t{sentences[4]}"
    joined = f"{alone[0]} {alone[1]}\n\n- {alone[2]}\n{alone[3]}\t{alone[4]}"
    assert translator([text]) == [joined]
    (document,) = translator.translate_document([text])
    assert document == (joined, 5, ())
    assert translator.translate_document([]) == []


@pytest.mark.long
def test_one_sentence_is_translated_as_without_segmentation(translator):
    texts = [*toy_sentences(20, seed=6), "", "  a dog. ", "- a dog.", "Dr. Dog sees the cat", "no stop at all"]
    plain = Translator(
        translator.model, toy_tokenizers(), dataclasses.replace(SEARCH, segmentation=False, max_source_length=64)
    )
    whole = Translator(translator.model, toy_tokenizers(), dataclasses.replace(SEARCH, max_source_length=64))
    assert whole(texts) == plain(texts)
    assert [row.texts[0] for row in whole.best(texts, as_sentences=True)] == plain(texts)


@pytest.mark.long
def test_other_methods_count_the_sentences_of_a_row(translator, tokenizers):
    texts = ["a dog.", "a dog. The cat.\nThe house.", ""]
    assert translator.nbest(tf.constant(texts))["sentences"].numpy().tolist() == [1, 3, 0]
    assert translator.score(tf.constant(texts), tf.constant(texts))["sentences"].numpy().tolist() == [1, 3, 0]
    assert translator.attention(tf.constant(texts))["sentences"].numpy().tolist() == [1, 3, 0]
    assert [row.sentences for row in translator.nbest(texts)] == [1, 3, 0]
    plain = Translator(translator.model, tokenizers, dataclasses.replace(SEARCH, segmentation=False))
    assert "sentences" not in plain.nbest(tf.constant(texts))
