"""Beam search against searches over a toy model that try everything, or are written as the definition reads."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
import toy_search
from toy_search import BOS, EOS, SOURCE, WIDTH, ToyModel

from tf_transformer.decoding._beam_search import beam_search
from tf_transformer.decoding._options import SearchOptions

pytestmark = pytest.mark.long

ROWS = 5
EVERY_OPTION = {
    "plain": {},
    "no penalty": {"alpha": 0.0},
    "strong penalty": {"alpha": 2.0},
    "average": {"alpha": 1.0, "length_penalty": "average"},
    "early stopping": {"alpha": 1.0, "length_penalty": "average", "early_stopping": True},
    "length reward": {"alpha": 0.0, "length_reward": 0.8},
    "reward and penalty": {"alpha": 0.6, "length_reward": 0.5},
    "reward and average": {"alpha": 1.3, "length_penalty": "average", "length_reward": 0.2},
    "minimum": {"min_length": 2},
    "no repeated word": {"no_repeat_ngram": 1},
    "no repeated pair": {"no_repeat_ngram": 2},
    "coverage": {"coverage_penalty": 0.7},
    "forbidden": {"forbidden_ids": (0, 3)},
    "all": {"min_length": 1, "no_repeat_ngram": 2, "coverage_penalty": 0.3, "forbidden_ids": (2,), "alpha": 1.3},
}


def run(model, max_lengths, options, rows=None, prefixes=None):
    rows = list(range(len(max_lengths))) if rows is None else rows
    prefix = tf.ragged.constant(prefixes, tf.int32).to_tensor(default_value=4) if prefixes else None
    lengths = tf.constant([len(prefix) for prefix in prefixes]) if prefixes else None
    graph = graph_of(model, options, prefixes is not None)
    state = model.state(rows)["context"]
    max_lengths = tf.constant(max_lengths, tf.int32)
    return graph(state, max_lengths, prefix, lengths) if prefixes else graph(state, max_lengths)


@functools.lru_cache(maxsize=1)
def graph_of(model, options, with_prefix):
    """One trace for any number of rows."""
    signature = [tf.TensorSpec([None, WIDTH]), tf.TensorSpec([None], tf.int32)]
    if with_prefix:
        signature += [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)]

    @tf.function(autograph=False, input_signature=signature)
    def graph(context, max_lengths, prefix=None, prefix_lengths=None):
        return beam_search(
            model.step,
            model.state_of(context),
            tf.fill(tf.shape(max_lengths), BOS),
            max_lengths,
            options,
            grow=lambda state, capacity: model.grow(state, capacity, options.beam_size),
            prefix=prefix,
            prefix_lengths=prefix_lengths,
            source_length=SOURCE,
        )

    return graph


def rows_of(result):
    """[[(ids, score), …] a row], without what does not exist."""
    found = []
    for ids, lengths, scores in zip(result.ids.numpy(), result.lengths.numpy(), result.scores.numpy()):
        assert all((row[length:] == 0).all() for row, length in zip(ids, lengths))
        found.append([(list(row[:n]), float(s)) for row, n, s in zip(ids, lengths, scores) if n])
    return found


def assert_same(found, expected):
    assert [ids for ids, _ in found] == [ids for ids, _ in expected]
    np.testing.assert_allclose([s for _, s in found], [s for _, s in expected], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["plain", "no repeated word", "coverage", "all"])
def test_a_wide_beam_is_exhaustive(name):
    model, lengths = ToyModel(3, seed=3), [3, 2, 3]
    options = SearchOptions(EOS, beam_size=130, **EVERY_OPTION[name])
    found = rows_of(run(model, lengths, options))
    for row, length in enumerate(lengths):
        assert_same(found[row], toy_search.exhaustive_search(model, row, length, options))


@pytest.mark.parametrize("name,beams", [*((name, 3) for name in [*EVERY_OPTION, "diverse"]), ("all", 2)])
def test_a_narrow_beam_finds_what_the_definition_finds(name, beams):
    """The definition never stops early: so this also shows that the early stop changes nothing."""
    model, lengths = ToyModel(ROWS, seed=11), [9, 1, 19, 0, 7]
    options = SearchOptions(EOS, beam_size=beams, **EVERY_OPTION.get(name, {"diversity": 0.9}))
    found = rows_of(run(model, lengths, options))
    for row, length in enumerate(lengths):
        expected = toy_search.plain_beam_search(model, row, length, options) if length else []
        assert_same(found[row], expected[:beams])


@pytest.mark.parametrize("wanted", [1, 3])
@pytest.mark.parametrize(
    "alpha,reward,kind",
    [
        (0.0, 0.0, "gnmt"),
        (0.6, 0.0, "gnmt"),
        (2.0, 0.0, "gnmt"),
        (0.0, 0.7, "gnmt"),
        (0.6, 0.5, "gnmt"),
        (1.0, 0.1, "average"),
    ],
)
def test_the_stop_guards_the_hypotheses_asked_for(alpha, reward, kind, wanted):
    """With alpha 2 and so many rows, a stop that forgets how far the penalty can still fall is caught."""
    rows, length = 60, 12
    model = ToyModel(rows, seed=5)
    options = SearchOptions(EOS, beam_size=3, alpha=alpha, length_reward=reward, length_penalty=kind)
    found = rows_of(run(model, [length] * rows, dataclasses.replace(options, nbest=wanted)))
    for row in range(rows):
        assert_same(found[row][:wanted], toy_search.plain_beam_search(model, row, length, options)[:wanted])


def test_early_stopping_ends_with_as_many_hypotheses_as_beams():
    rows, length = 60, 12
    model, found = ToyModel(rows, seed=5), {}
    for early in (False, True):
        options = SearchOptions(EOS, beam_size=2, alpha=1.0, length_penalty="average", early_stopping=early)
        found[early] = rows_of(run(model, [length] * rows, options))
        for row in range(rows):
            assert_same(found[early][row], toy_search.plain_beam_search(model, row, length, options)[:2])
    best = [[row[0][1] for row in found[early]] for early in (False, True)]
    assert all(one >= other - 1e-5 for one, other in zip(*best)) and found[False] != found[True]


def test_the_first_step_asks_one_beam_and_the_search_stops_early():
    model, asked = ToyModel(1, seed=1), []
    options = SearchOptions(EOS, beam_size=3, nbest=1)

    def step(step, state):
        asked.append(step.tokens.shape[1])
        return model.step(step, state)

    arguments = model.state(), tf.constant([BOS]), tf.constant([40]), options
    beam_search(step, *arguments, grow=lambda state, capacity: model.grow(state, capacity, 3))
    assert asked[0] == 1 and set(asked[1:]) <= {3}
    assert 1 < len(asked) < 40


@pytest.mark.parametrize("beams", [1, 3, 130])
def test_a_prefix_is_forced_and_counts(beams):
    model, prefixes = ToyModel(3, seed=7), [[4], [], [3, 3]]
    options = SearchOptions(EOS, beam_size=beams, min_length=1)
    found = rows_of(run(model, [3, 3, 3], options, prefixes=prefixes))
    for row, prefix in enumerate(prefixes):
        plain = {1: toy_search.plain_greedy, 3: toy_search.plain_beam_search, 130: toy_search.exhaustive_search}[beams]
        assert_same(found[row], plain(model, row, 3, options, prefix)[:beams])


@pytest.mark.parametrize("name", ["plain", "reward and penalty", "minimum", "no repeated pair", "all"])
def test_beam_1_is_greedy(name):
    model, lengths = ToyModel(ROWS, seed=2), [9, 1, 19, 0, 7]
    options = SearchOptions(EOS, beam_size=1, **EVERY_OPTION[name])
    for row, (length, found) in enumerate(zip(lengths, rows_of(run(model, lengths, options)))):
        assert_same(found, toy_search.plain_greedy(model, row, length, options))


@pytest.mark.parametrize("beams", [1, 3])
def test_a_row_alone_is_the_row_in_any_batch(beams):
    model, lengths = ToyModel(7, seed=13), [40, 3, 0, 17, 33, 1, 16]
    options = SearchOptions(EOS, beam_size=beams, alpha=2.0)
    together = rows_of(run(model, lengths, options))
    for row, length in enumerate(lengths):
        assert_same(rows_of(run(model, [length], options, rows=[row]))[0], together[row])
    backwards = rows_of(run(model, lengths[::-1], options, rows=list(range(7))[::-1]))
    for ours, theirs in zip(backwards[::-1], together):
        assert_same(ours, theirs)


def test_log_probs_are_the_models_own():
    model, options = ToyModel(3, seed=17), SearchOptions(EOS, beam_size=2, alpha=0.6)
    result = run(model, [5, 6, 4], options)
    for row in range(3):
        for ids, length, value in zip(result.ids[row].numpy(), result.lengths[row], result.log_probs[row]):
            np.testing.assert_allclose(value, toy_search.log_prob(model, row, list(ids[: int(length)])), rtol=1e-5)


def test_finished_hypotheses_come_before_truncated_ones():
    model = ToyModel(ROWS, seed=19, sharpness=4.0)
    result = run(model, [3] * ROWS, SearchOptions(EOS, beam_size=3))
    ends = tf.reduce_any(result.ids == EOS, axis=2).numpy()
    np.testing.assert_array_equal(result.finished.numpy(), ends)
    assert ends.any() and not ends.all()
    assert (np.diff(ends.astype(int), axis=1) <= 0).all()


def test_ties_go_to_the_lower_id():
    model = ToyModel(1)
    model.output[:] = 0.0
    found = rows_of(run(model, [2], SearchOptions(EOS, beam_size=3, alpha=0.0)))[0]
    assert [ids for ids, _ in found] == [[1], [0, 1], [0, 0]]


def test_an_empty_batch_and_rows_without_room():
    model, options = ToyModel(2), SearchOptions(EOS, beam_size=2)
    assert run(model, [], options, rows=[]).ids.shape == (0, 2, 0)
    assert run(model, [0, 0], options).ids.shape == (2, 2, 0)


def test_options_say_what_is_wrong():
    with pytest.raises(ValueError, match=r"length_reward must be at least 0\. Received: -0\.5"):
        SearchOptions(EOS, length_reward=-0.5)
    with pytest.raises(ValueError, match=r"beam_size must be at least 1\. Received: 0"):
        SearchOptions(EOS, beam_size=0)
    with pytest.raises(ValueError, match=r"beam_size must be an integer of at least 1\. Received: 2\.5"):
        SearchOptions(EOS, beam_size=2.5)
    with pytest.raises(ValueError, match=r"eos_id must be an integer of at least 0\. Received: None"):
        SearchOptions(None)
    with pytest.raises(ValueError, match=r"eos_id must be at least 0\. Received: -1"):
        SearchOptions(-1)
    with pytest.raises(ValueError, match=r"nbest must be from 1 to beam_size = 2\. Received: 3"):
        SearchOptions(EOS, beam_size=2, nbest=3)
    with pytest.raises(ValueError, match="forbidden_ids"):
        SearchOptions(EOS, forbidden_ids=(EOS,))
    with pytest.raises(ValueError, match="Expected source_length with coverage_penalty"):
        beam_search(None, None, None, None, SearchOptions(EOS, coverage_penalty=1.0))
