"""Shortlists: candidates of a batch, rows independent of their batch, and exact searches where nothing is left out."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from toy_workdir import TOY, toy_sentences, toy_workdir

from tf_transformer.decoding import Shortlist, Translator
from tf_transformer.decoding._shortlist import CandidateTable

pytestmark = pytest.mark.long

SMALL = dataclasses.replace(TOY, num_layers=1, num_decoder_layers=1, output_bias=True)
SENTENCES = toy_sentences(9, seed=4)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return toy_workdir(tmp_path_factory.mktemp("shortlist") / "run", SMALL, max_extra_length=4, segmentation=False)


def shortlist_of(workdir, per_source=3, frequent=5, seed=1):
    size, random = workdir.tokenizers.target.vocab_size, np.random.default_rng(seed)
    lists = random.integers(4, size, (size, per_source))
    return Shortlist.of(lists, random.integers(4, size, frequent), workdir.tokenizers)


def everything(workdir):
    size = workdir.tokenizers.target.vocab_size
    return Shortlist.of(np.full((size, 1), -1), np.arange(size), workdir.tokenizers)


def test_candidates_are_those_of_a_rows_own_tokens(workdir):
    shortlist = shortlist_of(workdir)
    source = np.array([[7, 11, 3, 0, 0], [13, 3, 0, 0, 0], [5, 17, 19, 23, 3]], np.int32)
    lengths = np.array([3, 2, 5], np.int32)
    prefix = np.array([[0, 0], [29, 31], [0, 0]], np.int32)
    found = CandidateTable(shortlist).of(tf.constant(source), tf.constant(lengths), tf.constant(prefix))
    ids, allowed = found.vocabulary.ids.numpy(), found.allowed.numpy()
    expected = [shortlist.candidates_of(row[:n].tolist()) for row, n in zip(source, lengths)]
    expected = [np.union1d(each, row) for each, row in zip(expected, prefix)]
    for row, candidates in zip(allowed, expected):
        np.testing.assert_array_equal(ids[row], candidates)
    union = np.unique(np.concatenate(expected))
    np.testing.assert_array_equal(ids[: len(union)], union)
    assert len(ids) % 64 == 0 and not allowed[:, len(union) :].any()
    places = found.vocabulary.places.numpy()
    np.testing.assert_array_equal(places[union], np.arange(len(union)))
    assert (np.delete(places, union) == -1).all()


@pytest.mark.parametrize(
    "beams", [4, pytest.param(1, marks=pytest.mark.slow), pytest.param(17, marks=pytest.mark.slow)]
)
def test_a_shortlist_of_everything_changes_nothing(workdir, beams):
    full = Translator.from_workdir(workdir.path, beam_size=beams)
    short = Translator.from_workdir(workdir.path, shortlist=everything(workdir), beam_size=beams)
    for one, other in zip(full.nbest(SENTENCES), short.nbest(SENTENCES)):
        assert one.texts == other.texts
        np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-4)


def test_rows_do_not_depend_on_their_batch_and_stay_among_their_candidates(workdir):
    shortlist = shortlist_of(workdir)
    translator = Translator.from_workdir(workdir.path, shortlist=shortlist, beam_size=3)
    together = translator(SENTENCES)
    assert together == [translator([sentence])[0] for sentence in SENTENCES]
    assert together != Translator.from_workdir(workdir.path, beam_size=3)(SENTENCES)
    encode = tf.function(translator._search, autograph=False)
    found = encode(translator._read(tf.constant(SENTENCES)), nbest=1).ids[:, 0].numpy()
    for sentence, ids in zip(SENTENCES, found):
        assert set(ids[ids > 0]) <= set(shortlist.candidates_of(workdir.tokenizers.source.encode(sentence)))


def test_a_prefix_need_not_be_a_candidate(workdir):
    nothing = Shortlist.of(np.full((workdir.tokenizers.source.vocab_size, 1), 9), np.array([8]), workdir.tokenizers)
    translator = Translator.from_workdir(workdir.path, shortlist=nothing)
    prefixes = ["the river", "", "a small cat"]
    found = translator(SENTENCES[:3], prefixes)
    assert [text.startswith(prefix) for text, prefix in zip(found, prefixes)] == [True] * 3


def test_ngrams_are_not_repeated(workdir):
    few = Shortlist.of(np.full((workdir.tokenizers.source.vocab_size, 1), -1), np.arange(20, 26), workdir.tokenizers)
    for size in (0, 1):
        translator = Translator.from_workdir(workdir.path, shortlist=few, no_repeat_ngram=size, min_length=3)
        found = tf.function(translator._search)(translator._read(tf.constant(SENTENCES)), nbest=1).ids[:, 0].numpy()
        repeated = [len(set(ids[ids > 0])) < len(ids[ids > 0]) for ids in found]
        assert any(repeated) == (size == 0)


def test_a_saved_shortlist_is_the_same(workdir, tmp_path):
    shortlist = shortlist_of(workdir)
    shortlist.save(tmp_path / "table.npz")
    loaded = Shortlist.load(tmp_path / "table.npz")
    np.testing.assert_array_equal(loaded.table, shortlist.table)
    np.testing.assert_array_equal(loaded.frequent, shortlist.frequent)
    assert (loaded.vocab_size, loaded.tokenizers) == (shortlist.vocab_size, shortlist.tokenizers)
    facts = loaded.facts(tmp_path / "table.npz")
    assert (facts["per_source_id"], facts["frequent"], facts["file"]) == (4, 6, "table.npz")


def test_what_does_not_fit_is_rejected(workdir, tmp_path):
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ValueError, match="expected a shortlist that `tf-transformer shortlist` wrote"):
        Shortlist.load(damaged)
    with pytest.raises(ValueError, match=r"int32 ids from 0 to 9"):
        Shortlist(np.array([[10]], np.int32), np.array([3], np.int32), 10, {})
    other = dataclasses.replace(shortlist_of(workdir), tokenizers={"source": "a", "target": "b"})
    with pytest.raises(ValueError, match="of other tokenizers"):
        Translator.from_workdir(workdir.path, shortlist=other)
    with pytest.raises(ValueError, match=r"Received: decoding\.sampling"):
        Translator.from_workdir(workdir.path, shortlist=shortlist_of(workdir), sampling=True)
