"""The translator: strings in, strings out, whatever the strings are."""

import dataclasses
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from toy_workdir import TOY, randomize, toy_sentences, toy_tokenizers

from tf_transformer.config import DecodingConfig
from tf_transformer.decoding import _batching as chunks
from tf_transformer.decoding._sampling import SamplingOptions
from tf_transformer.decoding._search import score_ids, search_options, text_to_ids
from tf_transformer.decoding._translator import Translator
from tf_transformer.model import Transformer
from tf_transformer.text._tokenizer import TokenizerPair

pytestmark = pytest.mark.long

LIMIT = 13
# Random weights give translations that fail the checks; test_checks.py tests these.
FEW = DecodingConfig(beam_size=3, max_source_length=LIMIT, max_extra_length=7, failure_detection=False)
ODD = [
    b"",
    b"   ",
    b"\n\t\n",
    b"\xff\xfe",
    b"cut \xe2\x82",
    b"overlong \xc0\xaf",
    "\ud800 alone".encode("utf-8", "surrogatepass"),
    b"nul\x00inside",
    "日本語 🙂 <b>html</b> https://example.org/?a=b".encode(),
    b"</s> <s> <pad> \xe2\x96\x81",
    b"1234567890" * 30,
    b"ha " * 500,
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
    return Translator(model, tokenizers, FEW)


def test_order_is_kept_over_batches(translator):
    texts = toy_sentences(67, seed=3)
    found = translator(texts)
    assert len(found) == 67
    assert [translator([text])[0] for text in texts[:5]] == found[:5]
    assert translator(texts[::-1]) == found[::-1]
    assert translator([]) == []


def test_nothing_gives_nothing(translator):
    assert translator(["", "   ", "\n"]) == ["", "", ""]
    found = translator.nbest(tf.constant(["", "a dog."]))
    assert found["translations"][0].numpy().tolist() == [b""] * 3
    assert found["scores"][0].numpy().tolist() == [0.0] * 3
    assert translator.translate(tf.zeros([0], tf.string))["translation"].shape == (0,)


def test_odd_rows_give_valid_text_and_leave_their_neighbours_alone(translator):
    plain = toy_sentences(2, seed=9)
    expected = translator(plain)
    found = translator([plain[0], *ODD, plain[1]])
    assert [found[0], found[-1]] == expected
    assert all(isinstance(text, str) for text in found)
    assert [translator([text])[0] for text in ODD] == found[1:-1]


def test_megabytes_cost_little(translator):
    found = translator.nbest([b"x" * 5_000_000, "a dog."])
    assert [row.truncated for row in found] == [True, False]


def test_the_limit_is_exact_and_flagged(translator, tokenizers):
    below, at, above = (" ".join(["dog"] * count) for count in range(LIMIT - 2, LIMIT + 1))
    ids, lengths, truncated, _ = text_to_ids(tf.constant([below, at, above]), tokenizers.source, LIMIT)
    assert [len(tokenizers.source.encode(text)) for text in (below, at, above)] == [LIMIT - 1, LIMIT, LIMIT + 1]
    assert lengths.numpy().tolist() == [LIMIT - 1, LIMIT, LIMIT]
    assert truncated.numpy().tolist() == [False, False, True]
    assert ids[:, -1].numpy().tolist() == [0, 3, 3]
    assert [row.truncated for row in translator.nbest([below, at, above])] == [False, False, True]


def test_the_output_is_bounded(model, tokenizers):
    """Input length + max_extra_length, EOS counted on both sides."""
    translator = Translator(model, tokenizers, dataclasses.replace(FEW, min_length=1000))
    source = translator._read(tf.constant(["a dog.", "the big red house."]))
    found = translator._search(source)
    np.testing.assert_array_equal(found.lengths, np.repeat(source.lengths.numpy()[:, None] + 7, 3, axis=1))
    lengths = source.lengths.numpy()
    for limits, expected in (
        ({"max_length": 11}, np.minimum(lengths + 7, 11)),
        ({"max_length_factor": 1.3}, np.floor(lengths * 1.3)),
        ({"max_length": 1000, "max_length_factor": 1000.0}, lengths + 7),
    ):
        bounded = Translator(model, tokenizers, dataclasses.replace(translator.decoding, **limits))._search(source)
        np.testing.assert_array_equal(bounded.lengths[:, 0], expected)


def test_any_number_of_rows_is_one_trace(translator):
    for count in (1, 3, 0, 2):
        assert len(translator(toy_sentences(count))) == count
    function = translator._function("translate", 1)
    assert function(tf.zeros([0], tf.string))["translation"].shape == (0,)
    assert function.experimental_get_tracing_count() == 1


def test_it_can_be_saved_after_it_was_used(translator, tmp_path):
    translator(["a dog."])
    tf.train.Checkpoint(translator=translator).write(str(tmp_path / "saved"))


def test_ranks_other_than_one_are_rejected(translator):
    for text in ("a dog.", [["a dog."]]):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="not compatible with expected shape"):
            translator.translate(tf.constant(text))


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_scores_equal_those_of_the_search(model, tokenizers, alpha):
    translator = Translator(model, tokenizers, dataclasses.replace(FEW, alpha=alpha))
    source = translator._read(tf.constant(toy_sentences(5, seed=4)))
    found = translator._search(source)
    for beam in range(3):
        scores = score_ids(model, source.ids, found.ids[:, beam], found.lengths[:, beam])
        np.testing.assert_allclose(scores, found.log_probs[:, beam], atol=1e-4)


def test_score_of_pairs(translator, model, tokenizers):
    sources, targets = toy_sentences(3, seed=5), ["a big dog.", "", "the old tree is red."]
    found = translator.score(sources, targets)
    for source, target, (score, tokens, _) in zip(sources, targets, found):
        ids = tokenizers.target.encode(target)
        logits = model(
            {"source": tf.constant([tokenizers.source.encode(source)[:LIMIT]]), "target": tf.constant([[2, *ids[:-1]]])}
        )
        expected = tf.gather(tf.nn.log_softmax(logits)[0], ids, batch_dims=1)
        assert tokens == len(ids)
        np.testing.assert_allclose(score, tf.reduce_sum(expected), atol=1e-4)


def test_pairs_are_scored_some_at_a_time(model, tokenizers, monkeypatch):
    sources, targets = (text_to_ids(tf.constant(toy_sentences(7, seed)), tokenizers.source, 37) for seed in (7, 8))
    expected = score_ids(model, sources.ids, targets.ids, targets.lengths)
    encode, encoded = Transformer.encode, []
    monkeypatch.setattr(Transformer, "encode", lambda self, ids: encoded.append(ids.shape) or encode(self, ids))
    monkeypatch.setattr(chunks, "MAX_ROWS", 3)
    found = score_ids(model, sources.ids, targets.ids, targets.lengths)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert [rows for rows, _ in encoded] == [3, 3, 1]
    assert encoded[0][1] == sources.ids.shape[1] > encoded[2][1]


def test_truncated_pairs_are_flagged(translator):
    words = {count: " ".join(["dog"] * count) for count in (LIMIT - 1, LIMIT, LIMIT + 6, LIMIT + 7)}
    pairs = [(LIMIT - 1, LIMIT - 1), (LIMIT, LIMIT), (LIMIT - 1, LIMIT + 6), (LIMIT - 1, LIMIT + 7)]
    found = translator.score(*([words[count] for count in side] for side in zip(*pairs)))
    assert [pair.truncated for pair in found] == [False, True, False, True]
    assert [pair.tokens for pair in found] == [LIMIT, LIMIT + 1, LIMIT + 7, LIMIT + 7]


def test_a_prefix_begins_the_translation(translator):
    found = translator(["a dog.", "my cat is old."], prefixes=["the big", ""])
    assert found[0].startswith("the big")
    assert found[1] == translator(["my cat is old."])[0]


def test_a_truncated_prefix_is_flagged(translator):
    # As many tokens as a translation may have at the longest, without EOS and one to choose.
    words = [" ".join(["dog"] * count) for count in (LIMIT + 5, LIMIT + 6)]
    found = translator.nbest(["a dog."] * 2, prefixes=words)
    assert [each.truncated for each in found] == [False, True]
    assert found[0].texts[0].startswith(words[0])


def test_attention_is_batch_major(translator, tokenizers):
    texts = ["a dog.", "the big red house is old."]
    found = translator.attention(tf.constant(texts))
    translations = translator(texts)
    rows, layers, heads, targets, sources = found["attention"].shape
    assert (rows, layers, heads) == (2, 2, 3)
    assert found["source_tokens"].shape == (2, sources) and found["target_tokens"].shape == (2, targets)
    pieces = [piece.decode() for piece in found["source_tokens"][0].numpy()]
    assert pieces[: len(tokenizers.source.encode(texts[0]))] == tokenizers.source.pieces(
        tokenizers.source.encode(texts[0])
    )
    assert pieces[-1] == ""
    written = [piece.decode() for piece in found["target_tokens"][0].numpy() if piece not in (b"", b"</s>")]
    assert "".join(written).replace("▁", " ").strip() == translations[0]
    sums = tf.reduce_sum(found["attention"][0], axis=-1)
    written = tf.cast(found["target_tokens"][0] != "", tf.float32)
    np.testing.assert_allclose(sums, tf.broadcast_to(written, sums.shape), atol=1e-5)
    np.testing.assert_array_equal(found["attention"][0, ..., len(tokenizers.source.encode(texts[0])) :], 0)


def test_sampling_depends_on_seed_and_text_alone(model, tokenizers):
    config = dataclasses.replace(FEW, sampling=True, temperature=2.0)
    translator = Translator(model, tokenizers, config)
    texts = toy_sentences(5, seed=6)
    drawn = translator(texts)
    assert translator(texts[::-1])[::-1] == drawn
    other = Translator(model, tokenizers, dataclasses.replace(config, seed=2))
    assert other(texts) != drawn


def test_every_option_of_the_search_is_passed_on(model, tokenizers):
    config = dataclasses.replace(
        FEW,
        length_penalty="average",
        alpha=0.7,
        length_reward=0.3,
        early_stopping=True,
        no_repeat_ngram=1,
        coverage_penalty=0.5,
        diversity=0.3,
        min_length=3,
    )
    translator = Translator(model, tokenizers, config)
    options = search_options(translator.decoding, translator.model.config, None)
    shared = {field.name for field in dataclasses.fields(options)} & {
        field.name for field in dataclasses.fields(config)
    }
    default = DecodingConfig()
    for name in shared - {"nbest"}:
        assert getattr(options, name) == getattr(config, name) != getattr(default, name), name
    found = translator._search(translator._read(tf.constant(["a dog and a cat."])))
    for ids, length in zip(found.ids[0].numpy(), found.lengths[0].numpy()):
        words = list(ids[:length])
        assert length >= 4 and len(set(words)) == length
        assert not {0, 2} & set(words)


def test_every_option_of_the_sampling_is_passed_on(model, tokenizers, monkeypatch):
    told, found = [], types.SimpleNamespace(lengths=tf.zeros([1, 1], tf.int32))
    monkeypatch.setattr(
        "tf_transformer.decoding._sentence_translator.search_ids", lambda *arguments: told.append(arguments) or found
    )
    config = dataclasses.replace(FEW, sampling=True, temperature=0.7, top_k=5, top_p=0.9, seed=3)
    translator = Translator(model, tokenizers, config)
    texts = tf.constant(["a dog."])
    translator._search(translator._read(texts), texts)
    ((_, rows, _, sampling),) = told
    assert sampling == SamplingOptions(temperature=0.7, top_k=5, top_p=0.9)
    assert rows["seeds"][0, 0] == 3


def test_wrong_arguments_are_named(translator, model, tokenizers):
    with pytest.raises(ValueError, match=r"texts must be a list of strings\. Received: one string"):
        translator("a dog.")
    with pytest.raises(ValueError, match=r"texts must contain strings\. Received: texts\[1\] of type int"):
        translator(["a dog.", 3])
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        translator.score(["a", "b"], ["c"])
    other = Transformer(dataclasses.replace(TOY, vocab_size=997))
    with pytest.raises(ValueError, match="source tokenizer's vocab_size to be the model's, 997"):
        Translator(other, TokenizerPair.of(tokenizers.source))


@pytest.mark.parametrize("build", ["constructor", "from_workdir"])
def test_another_backend_is_rejected(build, model, tokenizers, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(
        RuntimeError, match=r"needs Keras on TensorFlow\. Received: the backend 'jax'\. Set .*KERAS_BACKEND"
    ):
        Translator(model, tokenizers) if build == "constructor" else Translator.from_workdir("run")
