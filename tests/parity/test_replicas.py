"""One replica and two train alike on the same global batch: losses and updated weights to 1e-5."""

import numpy as np
import pytest
import tensorflow as tf
from training_toys import ToyTraining, toy_batch

from tf_transformer.training import _gradients
from tf_transformer.training._strategies import make_strategy

# Keys' biases have no gradient but rounding, which Adam would blow up to a whole step: here they are left out.
MODEL = {"attention_bias": False}
# A learning rate as in the paper's first steps.
TRAINING = {"warmup_steps": 100}
BATCHES = [toy_batch(1), toy_batch(2)]


@pytest.fixture(scope="module")
def mirrored():
    return make_strategy("mirrored", 2)


@pytest.fixture(scope="module")
def alone():
    toy = ToyTraining(model=MODEL, training=TRAINING)
    return toy, toy.train(BATCHES)


def check_same(toy, report, alone):
    other, expected = alone
    np.testing.assert_allclose(report.loss, expected.loss, rtol=1e-5)
    np.testing.assert_array_equal(report.tokens, expected.tokens)
    np.testing.assert_allclose(report.gradient_norm, expected.gradient_norm, rtol=1e-5)
    first, ours, theirs = ToyTraining(model=MODEL).weights(), toy.weights(), other.weights()
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(
            toy.optimizer.first[name], other.optimizer.first[name], rtol=1e-3, atol=1e-6, err_msg=name
        )
        assert np.abs(ours[name] - first[name]).max() > 1e-4, f"{name} was not trained"


def test_the_halves_of_the_batch_have_unequal_tokens():
    halves = np.count_nonzero(BATCHES[0]["labels"], axis=1).reshape(2, -1).sum(1)
    assert halves[0] != halves[1]


@pytest.mark.parametrize("parts", [1, 3])
def test_two_replicas_train_like_one(mirrored, alone, parts):
    toy = ToyTraining(mirrored, model=MODEL, training=TRAINING | {"accumulation_steps": parts})
    check_same(toy, toy.train(BATCHES), alone)
    for variable in toy.variables.values():
        copies = mirrored.experimental_local_results(variable.value)
        np.testing.assert_array_equal(copies[0].numpy(), copies[1].numpy())


def test_accumulation_trains_like_one_part(alone):
    toy = ToyTraining(model=MODEL, training=TRAINING | {"accumulation_steps": 4})
    check_same(toy, toy.train(BATCHES), alone)


@pytest.fixture
def passes_that_differ(monkeypatch):
    """R-Drop's two passes differ by their sources, not by dropout, which is another one on each replica."""

    def doubled(batch):
        other = {**batch, "source": tf.where(batch["source"] > 3, 26 - batch["source"], batch["source"])}
        return {name: tf.concat([batch[name], other[name]], axis=0) for name in batch}

    monkeypatch.setattr(_gradients, "_doubled", doubled)


def test_r_drop_trains_alike_on_two_replicas_and_in_parts(mirrored, passes_that_differ):
    training = TRAINING | {"r_drop": 500.0}
    single = ToyTraining(model=MODEL, training=training)
    alone = single, single.train(BATCHES)
    without = ToyTraining(model=MODEL, training=TRAINING | {"r_drop": 1e-9}).train(BATCHES)
    assert alone[1].loss[0] > 1.002 * without.loss[0]  # the divergence is part of the loss
    for strategy, parts in ((mirrored, 1), (mirrored, 3), (None, 4)):
        toy = ToyTraining(strategy, model=MODEL, training=training | {"accumulation_steps": parts})
        check_same(toy, toy.train(BATCHES), alone)


def test_an_empty_half_is_no_trouble(mirrored):
    batch = {name: array.copy() for name, array in toy_batch(1).items()}
    for array in batch.values():
        array[6:] = 0
    pair, single = (ToyTraining(strategy, model=MODEL, training=TRAINING) for strategy in (mirrored, None))
    report = pair.train([batch])
    check_same(pair, report, (single, single.train([batch])))


def test_float16_scales_its_loss_inside_the_distributed_loop(mirrored):
    half = ToyTraining(mirrored, model=MODEL, training={"precision": "mixed_float16"})
    full = ToyTraining(model=MODEL)
    np.testing.assert_allclose(half.train(BATCHES).loss, full.train(BATCHES).loss, rtol=0.02)
    table = half.variables["source_embedding/table"]
    table.assign(np.full(table.shape, np.inf))
    scale = half.counters.loss_scale
    half.train([toy_batch(3)])
    assert (half.counters.updates, half.counters.skipped, half.counters.loss_scale) == (2, 1, scale / 2)


def test_replicas_drop_different_units(mirrored):
    """With the same rows on both replicas, the loss is twice that of one replica only if dropout is the same."""
    batch = toy_batch(1)
    twice = {name: np.concatenate([array, array]) for name, array in batch.items()}
    pair, single = (ToyTraining(strategy, model={"dropout": 0.5}) for strategy in (mirrored, None))
    assert abs(pair.train([twice]).loss[0] - 2 * single.train([batch]).loss[0]) > 0.1
