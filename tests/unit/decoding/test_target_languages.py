"""A translator of several languages: tokens of the source and of the target, per call and per row."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from toy_workdir import TOY, randomize, toy_sentences

from tf_transformer.config import DecodingConfig
from tf_transformer.decoding import ExportedModel, Translator
from tf_transformer.decoding._search import score_ids
from tf_transformer.model import Transformer
from tf_transformer.text import EOS_ID, LanguageError, Languages, TokenizerPair, train_tokenizer

pytestmark = pytest.mark.long

TOKENS = {"en": 4, "de": 5, "fr": 6}
KINDS = {
    "forced": Languages(TOKENS),
    "legacy": Languages(TOKENS, place="end"),
    "tagged": Languages(TOKENS, source_token="target", target_token=False, pairs=(("en", "de"), ("en", "fr"))),
}
TEXTS = toy_sentences(9, seed=8)
FEW = DecodingConfig(beam_size=3, max_source_length=17, max_extra_length=5, alpha=0.7, failure_detection=False)


@pytest.fixture(scope="module")
def tokenizers():
    tags = [f"<2{code}>" for code in TOKENS]
    return TokenizerPair.of(train_tokenizer(toy_sentences(300), 160, exact=False, control_symbols=tags))


@pytest.fixture(scope="module")
def model(tokenizers):
    config = dataclasses.replace(TOY, num_layers=1, num_decoder_layers=1, vocab_size=tokenizers.source.vocab_size)
    model = Transformer(config)
    randomize(model)
    return model


@pytest.fixture(scope="module")
def translator(model, tokenizers):
    return translator_of("forced", model, tokenizers)


def translator_of(kind, model, tokenizers):
    return Translator(model, dataclasses.replace(tokenizers, languages=KINDS[kind]), FEW, "en", target_language="de")


@pytest.mark.parametrize("kind", KINDS)
def test_languages_are_chosen_per_call_and_per_row(kind, model, tokenizers):
    translator = translator_of(kind, model, tokenizers)
    german, french = translator(TEXTS), translator(TEXTS, target_language="fr")
    assert german != french
    codes = ["de", "fr", "fr"] * 3
    mixed = translator(TEXTS, target_language=codes)
    assert mixed == [{"de": german, "fr": french}[code][row] for row, code in enumerate(codes)]
    assert translator(["", TEXTS[0], "  "], target_language=["fr", "de", "de"])[::2] == ["", ""]
    ids = translator._read(np.array(["the dog is in the house " * 20], object))
    assert ids.lengths.numpy().tolist() == [FEW.max_source_length + 1] and bool(ids.truncated.numpy()[0])


def test_all_sentences_of_a_text_have_its_language(translator):
    text = " ".join(sentence.capitalize() for sentence in TEXTS[:3])
    sentences = translator([sentence.capitalize() for sentence in TEXTS[:3]], target_language="fr")
    assert translator([text, TEXTS[0]], target_language=["fr", "de"])[0] == " ".join(filter(None, sentences))


def test_a_translation_begins_with_the_forced_token_which_costs_nothing(translator):
    source = translator._read(np.array(TEXTS, object))
    begin = translator._read_prefix(None, source)
    found = translator._search(source, tf.constant(TEXTS), prefix=begin)
    assert (found.ids.numpy()[:, 0, 0] == TOKENS["de"]).all()
    ids, lengths = found.ids[:, 0], found.lengths[:, 0]
    scores = score_ids(translator.model, source.ids, ids, lengths, first=1)
    np.testing.assert_allclose(scores, found.log_probs[:, 0], rtol=1e-4)
    assert (score_ids(translator.model, source.ids, ids, lengths).numpy() < scores.numpy()).all()


def test_a_prefix_comes_after_the_language(translator):
    found = translator(TEXTS[:4], prefixes=["the dog"] * 4, target_language="fr")
    assert all(text.startswith("the dog") for text in found)


def test_scores_depend_on_the_language(translator):
    german = translator.score(TEXTS[:3], TEXTS[3:6])
    french = translator.for_languages(target="fr").score(TEXTS[:3], TEXTS[3:6])
    assert [pair.tokens for pair in german] == [pair.tokens for pair in french]
    assert all(one.log_prob != other.log_prob for one, other in zip(german, french))


def test_attention_has_the_language_tokens(translator):
    found = translator.attention(tf.constant(TEXTS[:2]))
    assert found["attention"].shape[-1] == found["source_tokens"].shape[1]


def test_words_are_aligned_without_the_language_tokens(translator):
    given = translator.alignment(tf.constant(TEXTS[:2]), tf.constant(TEXTS[2:4]))
    assert next(word.decode() for word in given["source_words"].numpy()[0] if word) == TEXTS[0].split()[0].rstrip(".")
    links = given["links"].numpy()
    assert links[..., 0].max() < given["source_words"].shape[1] and links[..., 1].max() < given["target_words"].shape[1]


def test_unknown_languages_are_rejected(translator):
    with pytest.raises(LanguageError, match=r"Received: 'fra'\. Did you mean fr\?"):
        translator(TEXTS, target_language="fra")
    with pytest.raises(LanguageError, match="Expected a source language of the model"):
        translator(TEXTS, source_language="english")


def test_an_unknown_language_of_a_row_affects_no_other_row(translator):
    """A server merges the requests of several clients."""
    found = translator.translate_to(tf.constant(TEXTS[:3]), tf.constant(["fr", "xx", "de"]))["translation"].numpy()
    french, german = translator(TEXTS[:1], target_language="fr"), translator(TEXTS[2:3], target_language="de")
    assert [text.decode() for text in found] == [french[0], "", german[0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)Expected target languages among en, de, fr\. .*xx"):
        translator.translate_to(tf.constant(TEXTS[:2]), tf.constant(["xx", ""]))
    none = tf.constant([], tf.string)
    assert translator.translate_to(none, none)["translation"].shape == [0]


@pytest.mark.parametrize("kind", KINDS)
def test_copied_text_is_that_of_the_aligned_piece(kind, model, tokenizers):
    """Language tokens before the text and behind EOS stand for no text."""
    translator = translator_of(kind, model, tokenizers)
    assert not translator.target_tokenizer.byte_fallback
    texts = [f"the {'dog ' * place}\u2603 is in the house" for place in range(4)] + ["dog", "house", "the", "a"]
    source = translator._read(tf.constant(texts))
    ids = tf.constant([[translator.target_tokenizer.unk_id, EOS_ID]] * len(texts))
    copied = [text.decode() for text in translator._texts(ids, source, tf.constant(texts)).numpy()]
    assert copied[:4] == ["\u2603"] * 4
    for text, found in zip(texts[4:], copied[4:]):
        assert found and found in text


def test_a_language_that_is_not_chosen_is_asked_for(model, tokenizers):
    tokenizers = dataclasses.replace(tokenizers, languages=KINDS["forced"])
    with pytest.raises(LanguageError, match=r"Expected a target language for a model of several\. Received: none"):
        Translator(model, tokenizers, FEW, "en")(TEXTS)
    with pytest.raises(LanguageError, match="Expected a source language for a model of several"):
        Translator(model, tokenizers, FEW)(TEXTS, target_language="de")


def test_a_model_of_one_pair_has_no_other_language(model, tokenizers):
    translator = Translator(model, tokenizers, FEW, "en", target_language="de")
    with pytest.raises(LanguageError, match="Expected no target language: the model has one"):
        translator(TEXTS, target_language="fr")
    with pytest.raises(LanguageError, match=r"Expected 'en', the source language of the model. Received: 'xx'"):
        translator(TEXTS, source_language="xx")
    assert translator.languages is None and translator.for_languages("en", "de") is translator


@pytest.mark.slow
def test_an_export_translates_to_each_rows_language(translator, tmp_path):
    from tf_transformer.export._signatures import trace_signatures

    signatures = trace_signatures(translator)
    found = signatures["translate_to"](text=tf.constant(TEXTS), target_language=tf.constant(["fr"] * len(TEXTS)))
    assert [text.decode() for text in found["translation"].numpy()] == translator(TEXTS, target_language="fr")
    root = tf.Module()
    root.weights, root.tokenizers = translator.model.variables, [translator.source_tokenizer]
    tf.saved_model.save(root, str(tmp_path / "1"), signatures)
    (tmp_path / "1" / "model.json").write_text(
        '{"languages": {"source": "en", "target": "de", "targets": ["de", "fr"]}}'
    )
    texts = [text.encode() for text in TEXTS]
    german, french = ExportedModel(tmp_path), ExportedModel(tmp_path, "fr")
    assert [each.texts[0] for each in french.translate(texts)] == translator(TEXTS, target_language="fr")
    assert [each.texts[0] for each in german.translate(texts)] == translator(TEXTS)
    with pytest.raises(LanguageError, match=r"the language that the signature nbest of .* Received: 'fr'"):
        french.nbest(texts)
    with pytest.raises(LanguageError, match="Did you mean fr"):
        ExportedModel(tmp_path, "fra")
