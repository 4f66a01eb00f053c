"""Sampling: the right distribution, the right ids left out, and the same seeds giving the same outputs."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import toy_search
from toy_search import BOS, EOS, VOCAB, WIDTH, ToyModel

from tf_transformer.decoding._options import SearchOptions
from tf_transformer.decoding._sampling import SamplingOptions, sample

pytestmark = pytest.mark.long

PATHS = 997


PLAIN = SamplingOptions()


def draw(model, rows, seeds, lengths, sampling=PLAIN, paths=3, **options):
    graph = graph_of(model, SearchOptions(EOS, beam_size=paths, **options), sampling)
    return graph(model.state(rows)["context"], tf.constant(seeds), tf.constant(lengths))


@functools.lru_cache(maxsize=1)
def graph_of(model, options, sampling):
    """One trace for any number of rows."""
    signature = [tf.TensorSpec([None, WIDTH]), tf.TensorSpec([None, 2], tf.int32), tf.TensorSpec([None], tf.int32)]

    @tf.function(autograph=False, input_signature=signature)
    def graph(context, seeds, lengths):
        return sample(
            model.step,
            model.state_of(context),
            tf.fill(tf.shape(lengths), BOS),
            lengths,
            seeds,
            options,
            sampling,
            grow=lambda state, capacity: model.grow(state, capacity, options.beam_size),
        )

    return graph


def frequencies(model, sampling, **options):
    ids = draw(model, [0], [[1, 2]], [1], sampling, PATHS, **options).ids[0, :, 0]
    return np.bincount(ids, minlength=VOCAB) / PATHS


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_the_models_probabilities(temperature):
    model = ToyModel(1, seed=3)
    expected = np.exp(model.log_probs(0, ()) / temperature)
    found = frequencies(model, SamplingOptions(temperature=temperature))
    np.testing.assert_allclose(found, expected / expected.sum(), atol=0.05)


def test_only_the_likeliest_are_drawn():
    model = ToyModel(1, seed=3)
    probs = np.exp(model.log_probs(0, ()))
    order = np.argsort(-probs)
    kept = np.zeros(VOCAB)
    kept[order[:2]] = probs[order[:2]] / probs[order[:2]].sum()
    np.testing.assert_allclose(frequencies(model, SamplingOptions(top_k=2)), kept, atol=0.05)
    nucleus = float(probs[order[0]] + probs[order[1]] / 2)
    np.testing.assert_allclose(frequencies(model, SamplingOptions(top_p=nucleus)), kept, atol=0.05)
    assert frequencies(model, SamplingOptions(top_p=1e-6))[order[0]] == 1


def test_constraints_hold():
    model = ToyModel(1, seed=3)
    found = frequencies(model, SamplingOptions(), min_length=1, forbidden_ids=(4,))
    assert found[EOS] == 0 and found[4] == 0 and found[0] > 0


def test_a_prefix_is_forced():
    model = ToyModel(2, seed=3)
    options = SearchOptions(EOS, beam_size=3)
    arguments = tf.fill([2], BOS), tf.constant([7, 7]), tf.constant([[1, 2], [3, 4]]), options, PLAIN
    found = sample(
        model.step,
        model.state(),
        *arguments,
        grow=lambda state, capacity: model.grow(state, capacity, 3),
        prefix=tf.constant([[4, 3], [3, 0]]),
        prefix_lengths=tf.constant([2, 1]),
    )
    np.testing.assert_array_equal(found.ids[0, :, :2], [[4, 3]] * 3)
    np.testing.assert_array_equal(found.ids[1, :, :1], [[3]] * 3)


def test_a_path_on_which_nothing_is_allowed_ends_with_nothing():
    # Four ids that are not EOS, none twice, and EOS not before the sixth.
    found = draw(ToyModel(1, seed=3), [0], [[1, 2]], [9], min_length=6, no_repeat_ngram=1)
    assert not found.finished.numpy().any()
    np.testing.assert_array_equal(found.lengths, 0)


def test_no_rows_give_no_rows():
    found = draw(ToyModel(1), [], np.zeros([0, 2], np.int32), np.zeros([0], np.int32))
    assert found.ids.shape[:2] == (0, 3)


def test_a_row_draws_the_same_in_any_batch():
    model, seeds, lengths = ToyModel(3, seed=5), [[1, 2], [3, 4], [5, 6]], [19, 4, 9]
    together = draw(model, [0, 1, 2], seeds, lengths)
    for row in range(3):
        alone = draw(model, [row], [seeds[row]], [lengths[row]])
        width = alone.ids.shape[2]
        np.testing.assert_array_equal(alone.ids[0], together.ids[row, :, :width])
    again = draw(model, [0, 1, 2], seeds, lengths)
    np.testing.assert_array_equal(again.ids, together.ids)
    other = draw(model, [0, 1, 2], [[7, 8], [9, 10], [11, 12]], lengths)
    assert other.ids.shape != together.ids.shape or (other.ids.numpy() != together.ids.numpy()).any()


def test_log_probs_are_the_models_own_whatever_the_temperature():
    model = ToyModel(1, seed=7)
    result = draw(model, [0], [[1, 2]], [6], SamplingOptions(temperature=3.0))
    for ids, length, value in zip(result.ids[0].numpy(), result.lengths[0], result.log_probs[0]):
        np.testing.assert_allclose(value, toy_search.log_prob(model, 0, list(ids[: int(length)])), rtol=1e-5)


@pytest.mark.parametrize("kind", ["gnmt", "average"])
def test_scores_have_the_length_penalty_and_the_length_reward(kind):
    model, options = ToyModel(1, seed=7), {"alpha": 0.6, "length_reward": 0.5, "length_penalty": kind}
    result = draw(model, [0], [[1, 2]], [6], paths=11, **options)
    search, lengths = SearchOptions(EOS, **options), result.lengths[0].numpy()
    assert len(set(lengths)) > 1
    for ids, length, value in zip(result.ids[0].numpy(), lengths, result.scores[0]):
        np.testing.assert_allclose(value, toy_search.score(model, 0, list(ids[:length]), search), rtol=1e-5)


def test_options_say_what_is_wrong():
    with pytest.raises(ValueError, match=r"temperature must be above 0\. Received: 0"):
        SamplingOptions(temperature=0)
    with pytest.raises(ValueError, match=r"top_p must be above 0 and at most 1\. Received: 1\.5"):
        SamplingOptions(top_p=1.5)
    with pytest.raises(ValueError, match=r"top_k must be at least 0\. Received: -1"):
        SamplingOptions(top_k=-1)
