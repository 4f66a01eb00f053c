"""Failure detection: what the checks find, and that only translations that fail one are searched again."""

import dataclasses

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st
from toy_workdir import TOY, randomize, toy_sentences, toy_tokenizers

from tf_transformer.config import DecodingConfig
from tf_transformer.decoding import WARNINGS, LengthRange, Translator, search_ids
from tf_transformer.decoding._checks import CheckedSearch, constrained_rows, coverage_of, failed_checks, may_fail
from tf_transformer.decoding._documents import CHECKS, COVERAGE, LENGTH, REPETITION
from tf_transformer.decoding._options import Hypotheses
from tf_transformer.decoding._search import search_batch, search_options, search_rows, text_to_ids
from tf_transformer.model import Transformer

ANY_LENGTH = LengthRange(0.0, 0.0, 100.0, 100.0)
TEXT = [*toy_sentences(60, seed=11), "", "a dog."]
SEARCH = DecodingConfig(beam_size=3, max_source_length=29, max_extra_length=7)


def padded(rows, value=0):
    width = max(map(len, rows))
    return np.array([[*row, *[value] * (width - len(row))] for row in rows])


def checked(targets, sources=None, finished=True, coverage=None, usual=ANY_LENGTH, **rows):
    """The names of the checks that each target fails; the sources have no repetition unless given."""
    sources = sources or [[*range(10, 10 + max(map(len, targets))), 3]] * len(targets)
    lengths = tf.constant([len(source) for source in sources])
    coverage = tf.ones([len(sources), 1, max(map(len, sources))]) if coverage is None else coverage
    found = Hypotheses(
        tf.constant(padded(targets), tf.int32)[:, None],
        tf.constant([[len(target)] for target in targets]),
        *(tf.zeros([len(targets), 1]) for _ in range(2)),
        tf.fill([len(targets), 1], finished),
        coverage,
    )
    failed = failed_checks(found, {"source": tf.constant(padded(sources), tf.int32), "lengths": lengths, **rows}, usual)
    return [{name for name, bit in CHECKS.items() if bit & value} for value in failed.numpy().tolist()]


@pytest.mark.parametrize(
    ("target", "is_loop"),
    [
        ([5, 6, 7, 8, 9, 3], False),
        ([5, 5, 5, 5, 3], False),  # "…", "000"
        ([5, 5, 5, 5, 5, 3], True),
        ([5, 6, 5, 6, 5, 6, 3], False),
        ([5, 6, 5, 6, 5, 6, 5, 6, 3], True),
        ([5, 6, 7, 8, 9, 5, 6, 7, 3], False),  # on the one hand, on the other hand
        ([5, 6, 7, 8, 5, 6, 7, 9, 5, 6, 7, 3], True),
        ([4, *[5, 6, 7, 8, 9] * 3, 3], True),
        ([3], False),
        ([5, 3], False),
    ],
)
def test_repetition(target, is_loop):
    assert checked([target, [5, 6, 3]]) == [{REPETITION} if is_loop else set(), set()]


def test_repetition_of_the_source_may_be_repeated():
    loop = [5, 6] * 5 + [3]
    assert checked([loop, loop], [[8, 9] * 5 + [3], [*range(10, 20), 3]]) == [set(), {REPETITION}]


def test_length():
    usual = LengthRange(0.9, -1.0, 1.1, 2.0)
    low, high = usual.limits(tf.constant([16, 1]))
    assert low.numpy().tolist() == [11, 1]  # 0.9 · 16 - 4 = 10.4
    assert high.numpy().tolist() == [25, 3]  # 1.1 · 16 + 8 = 25.6
    source = [[*range(10, 25), 3]]
    for length, fails in ((10, True), (11, False), (25, False), (26, True)):
        assert checked([[*list(range(30, 29 + length)), 3]], source, usual=usual) == [{LENGTH} if fails else set()]
    assert checked([[5, 6, 3]], finished=False) == [{LENGTH}]
    longer = {"prefix_lengths": tf.constant([27])}
    assert checked([[*list(range(30, 57)), 3]], source, usual=usual, **longer) == [set()]


def test_lengths_of_the_training_data():
    facts = {"splits": {"train": {"length_ratio": {"ratio": 1.25, "low": -1.5, "high": 2.5}}}}
    assert LengthRange.from_dataset(facts) == LengthRange(1.25, -1.5, 1.25, 2.5)
    assert LengthRange.from_dataset({}) == LengthRange.from_dataset({"splits": {"train": {}}}) == LengthRange()


def test_coverage():
    source = [[*range(10, 29), 3]] * 5
    coverage = np.ones([5, 1, 20], np.float32)
    coverage[1, 0, 3:7] = 0.1  # four in a row
    coverage[2, 0, [3, 4, 5, 7, 8, 9]] = 0.1  # three in a row, twice
    coverage[3, 0, 16:20] = 0.1  # three in a row, and EOS
    coverage[4, 0, 15:19] = 0.1  # the last four
    targets = [[5, 6, 3]] * 5
    assert checked(targets, source, coverage=coverage) == [set(), {COVERAGE}, set(), set(), {COVERAGE}]


@hypothesis.settings(derandomize=True, deadline=None, max_examples=40)
@hypothesis.given(
    st.lists(st.lists(st.integers(5, 7), max_size=12), min_size=1, max_size=5), st.integers(1, 9), st.booleans()
)
def test_what_fails_without_coverage_is_checked(targets, source, finished):
    targets = [[*target, 3] for target in targets]
    found = Hypotheses(
        tf.constant(padded(targets), tf.int32)[:, None],
        tf.constant([[len(target)] for target in targets]),
        *(tf.zeros([len(targets), 1]) for _ in range(2)),
        tf.fill([len(targets), 1], finished),
        tf.ones([len(targets), 1, source]),
    )
    rows = {"source": tf.range(len(targets) * source)[None] + 10, "lengths": tf.fill([len(targets)], source)}
    rows["source"] = tf.reshape(rows["source"], [len(targets), source])
    usual = LengthRange(0.5, -1.0, 1.2, 1.5)
    failed = failed_checks(found, rows, usual).numpy() > 0
    assert not (failed & ~may_fail(found, rows, usual).numpy()).any()


def test_short_translations_are_checked():
    usual = LengthRange(1.0, -2.0, 1.0, 4.0)  # of 16 tokens: 8 to 32
    found = Hypotheses(
        tf.range(1, 37)[None, None] + tf.zeros([4, 1, 1], tf.int32),
        tf.constant([[7], [11], [12], [33]]),
        *(tf.zeros([4, 1]) for _ in range(2)),
        tf.ones([4, 1], tf.bool),
    )
    rows = {"source": tf.tile(tf.range(16)[None], [4, 1]), "lengths": tf.fill([4], 16)}
    assert may_fail(found, rows, usual).numpy().tolist() == [True, True, False, True]


def test_nothing_is_searched_where_there_is_nothing():
    found = Hypotheses(
        tf.zeros([2, 1, 0], tf.int32), tf.zeros([2, 1], tf.int32), *[tf.zeros([2, 1])] * 2, tf.zeros([2, 1], tf.bool),
        tf.zeros([2, 1, 1]),
    )  # fmt: skip
    rows = {"source": tf.constant([[3], [3]]), "lengths": tf.constant([1, 1])}
    assert failed_checks(found, rows, LengthRange()).numpy().tolist() == [0, 0]


def test_rows_of_the_second_search_have_usual_lengths():
    rows = {"lengths": tf.constant([16, 16, 1]), "max_lengths": tf.constant([23, 13, 8])}
    found = constrained_rows(rows, LengthRange(0.9, -1.0, 1.1, 1.0))
    assert found["max_lengths"].numpy().tolist() == [21, 13, 2]
    assert found["min_lengths"].numpy().tolist() == [10, 10, 0]


@pytest.fixture(scope="module")
def tokenizers():
    return toy_tokenizers()


@pytest.fixture(scope="module")
def model(tokenizers):
    size = tokenizers.source.vocab_size
    model = Transformer(dataclasses.replace(TOY, num_layers=1, num_decoder_layers=2, vocab_size=size, output_bias=True))
    randomize(model, scale=2.0)
    return model


def prefer_eos(model, bias):
    """Outputs end sooner."""
    (biases,) = (
        each for each in model.weights if each.path.endswith("bias") and each.shape == (model.config.vocab_size,)
    )
    biases.assign(np.where(np.arange(model.config.vocab_size) == model.config.eos_id, bias, 0.0))


@pytest.fixture(scope="module")
def searches(model, tokenizers):
    """A search and one with checks, over weights with which some outputs pass the checks and others fail."""
    options = search_options(SEARCH, model.config, 1)
    usual = LengthRange(0.5, -1.0, 1.2, 1.5)

    def rows(text):
        return search_rows(text_to_ids(text, tokenizers.source, 29), None, 7, 36)

    signature = [tf.TensorSpec([None], tf.string)]
    plain = tf.function(lambda text: search_ids(model, rows(text), options), signature, autograph=False)
    search = CheckedSearch(model, usual)
    checking = tf.function(lambda text: search(rows(text), options), signature, autograph=False)
    for bias in (2.0, 4.0, 6.0, 8.0, 10.0):
        prefer_eos(model, bias)
        found = checking(tf.constant(TEXT))
        passed = int(tf.reduce_sum(tf.cast((found.failed == 0) & ~found.retried, tf.int32)))
        if 5 < passed < 55 and int(tf.reduce_sum(tf.cast(found.retried, tf.int32))) > 5:
            return plain, checking
    raise AssertionError("No bias gives a mixture; choose other weights.")


@pytest.mark.long
def test_only_what_fails_a_check_changes_and_rows_are_independent(searches):
    plain, checking = searches
    text = tf.constant(TEXT)
    before, (found, failed, retried) = plain(text), checking(text)
    same = ~retried.numpy()
    width = min(before.ids.shape[2], found.ids.shape[2])
    for name in ("ids", "lengths", "scores", "log_probs", "finished"):
        one, other = getattr(before, name).numpy()[same], getattr(found, name).numpy()[same]
        if name == "ids":
            assert not one[:, 0, width:].any() and not other[:, 0, width:].any()
            one, other = one[:, 0, :width], other[:, 0, :width]
        else:
            one, other = one[:, 0], other[:, 0]
        np.testing.assert_array_equal(one, other)
    for number in (0, 7, 60, 61, int(np.flatnonzero(~same)[0])):
        alone = checking(text[number : number + 1])
        assert alone.failed[0] == failed[number] and alone.retried[0] == retried[number]
        length = int(found.lengths[number, 0])
        assert alone.found.lengths[0, 0] == length
        np.testing.assert_array_equal(alone.found.ids[0, 0, :length], found.ids[number, 0, :length])
    assert checking(tf.zeros([0], tf.string)).found.ids.shape[0] == 0


@pytest.mark.long
def test_coverage_is_that_of_the_search(model, tokenizers):
    prefer_eos(model, 2.0)
    rows = search_rows(text_to_ids(tf.constant(TEXT[:9]), tokenizers.source, 29), None, 7, 36)
    options = dataclasses.replace(search_options(SEARCH, model.config, 1), track_coverage=True)
    found = search_batch(model, rows, options, all_layers=True)
    again = coverage_of(
        model, model.encode(rows["source"]), rows["source"], found.ids[:, 0], found.lengths[:, 0]
    ).numpy()
    there = np.arange(again.shape[1]) < rows["lengths"].numpy()[:, None]
    np.testing.assert_allclose(again[there], found.coverage[:, 0].numpy()[there], atol=1e-4)


@pytest.mark.long
def test_documents_report_what_is_wrong(model, tokenizers):
    text = ["\n".join(toy_sentences(20, seed=11)), "", *toy_sentences(5, seed=2)]
    on = Translator(model, tokenizers, SEARCH, usual_lengths=LengthRange(0.5, -1.0, 1.2, 1.5))
    off = Translator(model, tokenizers, dataclasses.replace(SEARCH, failure_detection=False))
    prefer_eos(model, 0.0)
    documents = on.translate_document(text)
    assert {"retried", "repetition"} & set(documents[0].warnings)
    assert all(set(document.warnings) <= WARNINGS.keys() for document in documents)
    assert documents[1] == ("", 0, ())
    for document, other in zip(documents, off.translate_document(text)):
        assert other.warnings == ()
        assert document.text == other.text or document.warnings
