"""Word alignment: links and confidences as NumPy computes them, offsets into the texts, rows independent."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from toy_workdir import TOY, randomize, toy_sentences, toy_tokenizers

from tf_transformer.config import ConfigError, DecodingConfig
from tf_transformer.decoding._alignment import (
    _spans,
    alignment_heads,
    force,
    link_words,
    overlap,
    side_of_ids,
    side_of_text,
    word_weights,
)
from tf_transformer.decoding._sentence_translator import written_pieces
from tf_transformer.decoding._translator import Translator
from tf_transformer.model import Transformer

pytestmark = pytest.mark.long

LIMIT = 17
HEADS = "1.3,2"
SCRIPTS = [
    "The small dog sees  my cat.",
    "日本語の文章です。",
    "Ελληνικά, русский!",
    "العربية हिन्दी",
    "👩‍👩‍👧",
    "the ﬁrst ½ e\u0301",
    "",
    " \t ",
    "The dog. The cat is old.",
]


@pytest.fixture(scope="module")
def tokenizers():
    return toy_tokenizers()


@pytest.fixture(scope="module")
def model(tokenizers):
    config = dataclasses.replace(TOY, num_layers=1, num_decoder_layers=2, vocab_size=tokenizers.source.vocab_size)
    model = Transformer(config)
    randomize(model)
    return model


@pytest.fixture(scope="module")
def translator(model, tokenizers):
    decoding = DecodingConfig(
        beam_size=2, max_source_length=LIMIT, max_extra_length=5, alignment_heads=HEADS, failure_detection=False
    )
    return Translator(model, tokenizers, decoding)


def numpy_links(weights):
    """Links of weights (target words, source words), one word after the other."""
    links, linked = set(), set()
    for source in range(weights.shape[1]):
        target = int(np.argmax(weights[:, source]))
        if weights[target, source] >= 0.1:
            links.add((source, target))
            linked.add(target)
    for target in set(range(len(weights))) - linked:
        source = int(np.argmax(weights[target]))
        if weights[target, source] >= 0.5:
            links.add((source, target))
    return links


def numpy_words(spans, words):
    """The numbers of the words that each piece overlaps."""
    return [[i for i, (first, last) in enumerate(words) if max(start, first) < min(end, last)] for start, end in spans]


def test_links_and_confidences_are_those_of_numpy(model, tokenizers):
    translator = Translator(
        model, tokenizers, DecodingConfig(beam_size=2, alignment_heads=HEADS, failure_detection=False)
    )
    texts = [*toy_sentences(5, seed=8), "the ﬁrst dogs… catlike"]
    targets = [*toy_sentences(5, seed=9), "my river, (under) the tree!?"]
    for text, target, found in zip(texts, targets, translator.align(texts, targets)):
        sides = []
        for side, words in ((text, found.source), (target, found.target)):
            tokens = tokenizers.source
            spans = [column.to_list()[0][:-1] for column in tokens.piece_spans(tf.constant([side]))]
            spans = [(start, max(end, start + 1)) for start, end in zip(*spans)]
            places = [(len(side[: word.start].encode()), len(side[: word.end].encode())) for word in words]
            sides.append(numpy_words(spans, places))
        ids = [tf.constant([tokenizers.source.encode(side)]) for side in (text, target)]
        cross, log_probs = force(model, *ids)
        chosen = [cross[0][0, 2], *cross[1][0]]
        weights = np.zeros((len(found.target), len(found.source)))
        for j in range(len(found.target)):
            pieces = [t for t, words in enumerate(sides[1]) if j in words]
            for t in pieces:
                for s, words in enumerate(sides[0]):
                    for i in words:
                        weights[j, i] += np.mean([head[t, s] for head in chosen]) / len(words) / len(pieces)
            assert found.confidences[j] == pytest.approx(np.exp(min(log_probs[0, t] for t in pieces)), rel=1e-4)
        assert set(found.links) == numpy_links(weights)


def test_the_log_probabilities_are_those_of_score(translator, model, tokenizers):
    texts, targets = ["the dog", "my cat"], ["a cat is old", "the tree"]
    for text, target, scored in zip(texts, targets, translator.score(texts, targets)):
        assert not scored.truncated
        ids = [tf.constant([tokenizers.source.encode(side)]) for side in (text, target)]
        assert np.sum(force(model, *ids)[1]) == pytest.approx(scored.log_prob, rel=1e-4)


def test_link_words_follows_numpy_on_random_weights():
    weights = np.random.default_rng(7).dirichlet([0.3] * 5, (11, 7)).astype("float32")
    for row, links in zip(weights, link_words(tf.constant(weights)).numpy()):
        assert {(s, t) for t, s in zip(*np.nonzero(links))} == numpy_links(row)


def test_word_weights_share_a_piece_of_several_words():
    weights = tf.constant([[[0.2, 0.8], [0.6, 0.4]]])
    source = tf.constant([[[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]])
    target = tf.constant([[[1.0], [1.0]]])
    np.testing.assert_allclose(word_weights(weights, source, target), [[[0.4, 0.3, 0.3]]], rtol=1e-6)


def test_offsets_lead_to_the_words_of_both_texts(translator):
    found = translator.align(SCRIPTS)
    assert [each.translation for each in found] == [each.texts[0] for each in translator.best(SCRIPTS, True)]
    for text, each in zip(SCRIPTS, found):
        assert [text[word.start : word.end] for word in each.source] == [word.text for word in each.source]
        assert [each.translation[word.start : word.end] for word in each.target] == [w.text for w in each.target]
        assert len(each.confidences) == len(each.target) and all(0 < c <= 1 for c in each.confidences)
        assert all(i < len(each.source) and j < len(each.target) for i, j in each.links)
        assert sorted(set(each.links)) == each.links
    assert [each.sentences for each in found] == [1, 1, 1, 1, 1, 1, 0, 0, 2]
    assert found[6] == found[7] == ("", [], [], [], [], 0)
    assert [word.text for word in found[4].source] == ["👩‍👩‍👧"]


def test_a_row_does_not_depend_on_its_neighbours(translator):
    for text, each in zip(SCRIPTS, translator.align(SCRIPTS)):
        alone = translator.align([text])[0]
        np.testing.assert_allclose(alone.confidences, each.confidences, rtol=1e-4)
        assert alone._replace(confidences=[]) == each._replace(confidences=[])


def test_pieces_of_ids_are_where_those_of_their_text_are(tokenizers):
    tokenizer = tokenizers.target
    texts = [*toy_sentences(20, seed=6), "the dog,the (cat)!"]
    given, read = side_of_text(tf.constant(texts), tokenizer, 99)
    found = side_of_ids(read.ids, read.lengths, tokenizer, *written_pieces(read.ids, tokenizer))
    known = [not (row == tokenizer.unk_id).any() for row in read.ids.numpy()]
    assert sum(known) >= 20
    assert [text.decode() for text in found.text.numpy()[known]] == np.array(texts)[known].tolist()
    # A space of its own belongs to no word.
    letters = np.array(
        [[piece not in ("▁", "</s>", "<pad>") for piece in tokenizer.pieces(row)] for row in read.ids.numpy()]
    )
    overlaps = [overlap(_spans(side)).numpy()[known] * letters[known][:, :, None] for side in (given, found)]
    np.testing.assert_array_equal(*overlaps)
    np.testing.assert_array_equal(overlaps[0].any(axis=2), letters[known])


def test_unknown_pieces_and_leading_spaces_keep_their_place(tokenizers):
    tokenizer = tokenizers.target
    space = next(i for i in range(tokenizer.vocab_size) if tokenizer.pieces([i]) == ["▁"])
    dog = tokenizer.encode("dog")
    ids = tf.constant([[space, space, *dog[:-1], tokenizer.unk_id, *dog]])
    side = side_of_ids(ids, tf.constant([ids.shape[1]]), tokenizer, *written_pieces(ids, tokenizer))
    assert side.text.numpy()[0].decode() == "dog ⁇  dog"
    assert [word.decode() for word in side.words.texts.numpy()[0]] == ["dog", "⁇", "dog"]
    size = len(dog) - 1
    expected = [[], [], *[[0]] * size, [1], *[[2]] * size, []]
    assert [np.flatnonzero(row).tolist() for row in overlap(_spans(side)).numpy()[0]] == expected


def test_very_long_rows_are_bounded(translator, tokenizers):
    rows = ["the dog " * 5000, "x" * 100_000, "、" * 100_000, b"\xff" * 10_000, "the dog."]
    found = translator.align(rows)
    assert all(len(each.source) <= 4 * LIMIT for each in found)
    assert found[0].source[-1].end <= 8 * LIMIT and len(found[4].source) == 3
    for text, each in zip(rows, found):
        text = text if isinstance(text, str) else text.decode("utf-8", "replace")
        assert all(text[word.start : word.end] == word.text for word in each.source)


def test_an_empty_batch_has_no_rows(translator):
    assert translator.align([]) == []
    found = translator.alignment(tf.constant([], tf.string))
    assert {name: value.shape[0] for name, value in found.items()} == dict.fromkeys(found, 0)


def test_padding_and_types_of_the_signature(translator):
    found = translator.alignment(tf.constant(["the dog is old.", ""]))
    shapes = {name: (value.dtype.name, value.shape.rank) for name, value in found.items()}
    words = {f"{side}_{name}": ("int32", 2) for side in ("source", "target") for name in ("starts", "ends")}
    words |= {f"{side}_words": ("string", 2) for side in ("source", "target")}
    assert shapes == words | {
        "translation": ("string", 1),
        "confidences": ("float32", 2),
        "links": ("int32", 3),
        "sentences": ("int32", 1),
    }
    assert set(found["source_words"][1].numpy()) == {b""} and set(found["source_ends"][1].numpy()) == {-1}
    assert not found["confidences"][1].numpy().any() and (found["links"][1].numpy() == -1).all()


def test_pieces_of_truncated_texts_stay_within_them(tokenizers):
    side, read = side_of_text(tf.constant(["my small dog sees the old river and the tree"]), tokenizers.source, 5)
    assert read.truncated.numpy().tolist() == [True]
    words = [word for word in side.words.texts.numpy()[0].tolist() if word]
    assert 1 <= len(words) < 5 and words[0] == b"my"


def test_heads_are_named_by_layer_and_head(model):
    config = dataclasses.replace(model.config, num_decoder_layers=5, num_heads=3)
    assert alignment_heads("2.3, 4", config) == ((1, 2), (3, 0), (3, 1), (3, 2))
    assert {layer for layer, _ in alignment_heads("", config)} == {2, 3, 4}
    assert alignment_heads("", dataclasses.replace(config, num_decoder_layers=1)) == ((0, 0), (0, 1), (0, 2))
    for wrong in ("6", "0", "1.4", "1.0"):
        with pytest.raises(ValueError, match=f"alignment_heads with layers from 1 to 5 .*Received: '{wrong}'"):
            alignment_heads(wrong, config)


@pytest.mark.parametrize("wrong", ["last", "1,", "1.2.3", ",2", "-1"])
def test_a_configuration_names_heads_by_numbers(wrong):
    with pytest.raises(ConfigError, match="alignment_heads"):
        DecodingConfig(alignment_heads=wrong)


def test_pharaoh_format(translator):
    found = translator.align(["the dog"])[0]._replace(links=[(0, 1), (1, 0)])
    assert found.pharaoh() == "0-1 1-0"
