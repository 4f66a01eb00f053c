import numpy as np
import pytest
from training_toys import ToyTraining, toy_batch

from tf_transformer.training._train_step import FIRST_LOSS_SCALE, Counters

pytestmark = pytest.mark.long

EMPTY = {name: np.zeros_like(array) for name, array in toy_batch(1).items()}


def difference(ours: dict, theirs: dict) -> float:
    return max(np.abs(ours[name] - theirs[name]).max() for name in ours)


def test_learns_a_batch_by_heart():
    toy = ToyTraining(training={"label_smoothing": 0.0, "warmup_steps": 30})
    report = toy.train([toy_batch(1)] * 60)
    assert report.negative_log_likelihood[0] / report.tokens[0] > 3.0
    assert report.negative_log_likelihood[-1] / report.tokens[-1] < 0.3


def test_several_steps_in_one_call_are_the_same_as_one_at_a_time():
    batches = [toy_batch(seed) for seed in range(3)]
    together, apart = ToyTraining(model={"dropout": 0.3}), ToyTraining(model={"dropout": 0.3})
    losses = together.train(batches).loss
    assert losses.tolist() == [apart.train([batch]).loss[0] for batch in batches]
    assert difference(together.weights(), apart.weights()) == 0.0
    assert together.counters == apart.counters == Counters(3, 3, 0, 0, 1.0, 0)


def test_dropout_follows_from_the_step_and_the_seed():
    toys = {seed: ToyTraining(model={"dropout": 0.3}, training={"seed": seed}) for seed in (1, 2)}

    def loss(seed, step):
        toy = toys[seed]
        toy.reset()
        toy.counters = toy.counters._replace(step=step)
        return toy.train([toy_batch(1)]).loss[0]

    assert loss(1, 0) == loss(1, 0)
    assert len({loss(1, 0), loss(1, 1), loss(2, 0)}) == 3


def test_a_batch_of_padding_has_the_loss_zero_and_changes_nothing():
    toy = ToyTraining()
    before = toy.weights()
    report = toy.train([EMPTY])
    assert (report.loss[0], report.tokens[0], report.gradient_norm[0], report.skipped[0]) == (0, 0, 0, 0)
    assert difference(toy.weights(), before) == 0.0
    assert toy.counters == Counters(1, 0, 0, 0, 1.0, 0)


def test_a_step_that_is_not_finite_is_skipped_and_counted():
    toy = ToyTraining()
    table = toy.variables["source_embedding/table"]
    good = table.numpy()
    bad = good.copy()
    bad[7] = np.nan
    table.assign(bad)
    report = toy.train([toy_batch(1)] * 2)
    assert report.skipped.tolist() == [1, 1] and report.loss.tolist() == [0, 0]
    assert toy.counters[:4] == (2, 0, 2, 2)
    np.testing.assert_array_equal(table.numpy(), bad)
    table.assign(good)
    toy.train([toy_batch(1)])
    assert toy.counters[:4] == (3, 1, 2, 0)


def test_float16_finds_its_loss_scale_and_only_then_counts_failures():
    toy = ToyTraining(training={"precision": "mixed_float16"})
    table = toy.variables["source_embedding/table"]
    good = table.numpy()
    table.assign(np.full(good.shape, np.inf))
    toy.train([toy_batch(1)] * 17)
    assert toy.counters.loss_scale == FIRST_LOSS_SCALE / 2**15 == 1.0
    assert (toy.counters.skipped, toy.counters.skipped_in_a_row) == (17, 2)
    table.assign(good)
    toy.counters = toy.counters._replace(loss_scale=1024.0, steps_at_scale=998)
    toy.train([toy_batch(1)] * 3)
    assert (toy.counters.loss_scale, toy.counters.steps_at_scale) == (2048.0, 1)


@pytest.mark.parametrize("r_drop", [0.0, 5.0])
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_trains_like_float32(precision, r_drop):
    options = {"model": {"dropout": 0.1 if r_drop else 0.0}, "training": {"r_drop": r_drop}}
    full = ToyTraining(**options)
    options["training"] = {"r_drop": r_drop, "precision": precision}
    half = ToyTraining(**options)
    ours, theirs = half.train([toy_batch(1)] * 10), full.train([toy_batch(1)] * 10)
    np.testing.assert_allclose(ours.loss, theirs.loss, rtol=0.05)
    assert ours.gradient_norm[0] == pytest.approx(theirs.gradient_norm[0], rel=0.05)
    assert half.counters.updates == 10
    assert all(weight.dtype == "float32" for weight in half.weights().values())


def test_clipping_bounds_the_gradient_that_is_applied():
    clipped, plain = ToyTraining(training={"gradient_clip_norm": 1e-3}), ToyTraining()
    report = clipped.train([toy_batch(1)])
    plain.train([toy_batch(1)])
    norm = report.gradient_norm[0]
    for name in clipped.variables:
        expected = plain.optimizer.first[name].numpy() * 1e-3 / norm
        np.testing.assert_allclose(clipped.optimizer.first[name].numpy(), expected, rtol=1e-4, atol=1e-9)


def test_the_moving_average_follows_the_weights_and_can_stand_in_for_them():
    toy = ToyTraining(training={"ema_decay": 0.75})
    name = "decoder/layer_0/feed_forward/inner/kernel"
    expected = toy.weights()[name]
    for seed in range(3):
        toy.train([toy_batch(seed)])
        expected = 0.75 * expected + 0.25 * toy.weights()[name]
    trained = toy.weights()[name]
    with toy.average.in_place():
        np.testing.assert_allclose(toy.weights()[name], expected, rtol=1e-5)
    np.testing.assert_array_equal(toy.weights()[name], trained)


def test_xla_computes_the_same():
    compiled, plain = ToyTraining(training={"xla": True}), ToyTraining()
    ours, theirs = (toy.train([toy_batch(1), toy_batch(2)]) for toy in (compiled, plain))
    np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-5)
    np.testing.assert_allclose(ours.gradient_norm, theirs.gradient_norm, rtol=1e-4)


@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_every_weight_gets_its_gradient_however_embeddings_are_tied(tied):
    toy = ToyTraining(model={"tied_embeddings": tied, "output_bias": True, "attention_bias": False})
    toy.train([toy_batch(1)])
    for name, moment in toy.optimizer.first.items():
        assert np.any(moment.numpy()), f"{name} got no gradient"
