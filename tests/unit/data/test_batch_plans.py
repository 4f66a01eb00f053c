"""Plans of batches: every pair once and inside its place, few shapes, little padding."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.data._bucketing import BucketPlanner
from tf_transformer.data._packing import PackPlanner
from tf_transformer.data._shapes import BatchShape, LengthCounts, fit_shapes, pack_shape

pytestmark = pytest.mark.long


def corpus_lengths(count, seed=5, longest=97):
    """Lengths as sentences have them: log-normal, the two sides alike but not equal."""
    chance = np.random.default_rng(seed)
    source = np.exp(chance.normal(2.9, 0.6, count))
    target = 1.1 * source * np.exp(chance.normal(0, 0.15, count))
    return np.clip(np.stack([source, target], axis=1), 2, longest).astype(np.int64)


LENGTHS = corpus_lengths(20_011)
BATCHINGS = pytest.mark.parametrize("batching", ["bucket", "pack"])


def planner(batching, lengths, batch_tokens, max_length=10**6, max_shapes=48):
    counts = LengthCounts.of(lengths)
    if batching == "pack":
        return PackPlanner(pack_shape(counts, batch_tokens), max_length)
    return BucketPlanner(fit_shapes(counts, batch_tokens, max_shapes), max_length)


def make_plan(planner, lengths, seed=(1, 2)):
    plan = tf.function(planner.plan)(
        tf.constant(lengths[:, 0]), tf.constant(lengths[:, 1]), tf.constant(seed, tf.int64)
    )
    return type(plan)(*(x.numpy() for x in plan))


def padding(plan, lengths):
    """The share of all places, both sides and empty rows included, that hold no token."""
    return 1 - lengths[plan.pairs].sum() / (plan.shapes[:, 2] * plan.shapes[:, :2].sum(1)).sum()


@BATCHINGS
@pytest.mark.parametrize("batch_tokens", [53, 307, 4096])
def test_every_pair_once_and_within_the_shape(batching, batch_tokens):
    lengths = LENGTHS[:2003]
    plan = make_plan(planner(batching, lengths, batch_tokens), lengths)
    assert sorted(plan.pairs.tolist()) == list(range(2003))
    ends = np.concatenate([[[0, 0]], np.cumsum(lengths[plan.pairs], axis=0)])
    rows = np.diff(ends[plan.row_splits], axis=0)
    covered = np.zeros(len(rows), int)
    for first, count, shape in zip(plan.first_rows, plan.num_rows, plan.shapes):
        covered[first : first + count] += 1
        assert 0 < count <= shape[2] and (rows[first : first + count] <= shape[:2]).all()
    assert (covered == 1).all()
    assert batching == "pack" or (np.diff(plan.row_splits) == 1).all()


def test_padding_of_buckets_and_packing():
    """The limits of the documentation, on 20,011 pairs at 4,096 tokens."""
    buckets = planner("bucket", LENGTHS, 4096)
    assert padding(make_plan(buckets, LENGTHS), LENGTHS) < 0.10
    assert len(buckets.shapes) <= 48
    packing = planner("pack", LENGTHS, 4096)
    assert padding(make_plan(packing, LENGTHS), LENGTHS) < 0.03
    assert len(packing.shapes) == 1


def test_padding_counts_empty_rows():
    lengths = np.array([[5, 7]] * 3)
    plan = make_plan(planner("bucket", lengths, 56), lengths)
    assert plan.shapes.tolist() == [[5, 7, 8]] and plan.num_rows.tolist() == [3]
    assert padding(plan, lengths) == pytest.approx(5 / 8)


@BATCHINGS
def test_randomness_comes_from_the_seed_alone(batching):
    own = planner(batching, LENGTHS, 4096)
    plans = [make_plan(own, LENGTHS, seed) for seed in ((1, 2), (1, 2), (1, 3))]
    for one, other in zip(plans[0], plans[1]):
        np.testing.assert_array_equal(one, other)
    assert (plans[0].pairs != plans[2].pairs).mean() > 0.9


@BATCHINGS
def test_long_pairs_are_left_out(batching):
    plan = make_plan(planner(batching, LENGTHS, 4096, max_length=41), LENGTHS)
    assert sorted(plan.pairs.tolist()) == np.flatnonzero((LENGTHS <= 41).all(1)).tolist()


@BATCHINGS
def test_no_pairs_make_no_batches(batching):
    plan = make_plan(planner(batching, LENGTHS, 4096), np.zeros((0, 2), np.int64))
    assert len(plan.pairs) == len(plan.num_rows) == 0


def test_short_and_long_batches_are_mixed():
    sizes = make_plan(planner("bucket", LENGTHS, 1024), LENGTHS).shapes[:, 0]
    half = len(sizes) // 2
    assert abs(sizes[:half].mean() - sizes[half:].mean()) < 0.2 * sizes.mean()


def test_the_largest_shape_holds_every_pair_and_the_number_is_bounded():
    for limit in (1, 2, 7):
        shapes = fit_shapes(LengthCounts.of(LENGTHS), 4096, max_shapes=limit)
        assert len(shapes) <= limit
        assert (shapes[-1].source, shapes[-1].target) == tuple(LENGTHS.max(0))


def test_more_shapes_mean_less_padding():
    paddings = [
        padding(make_plan(planner("bucket", LENGTHS, 1024, max_shapes=limit), LENGTHS), LENGTHS) for limit in (16, 4, 1)
    ]
    assert paddings[0] < paddings[1] < paddings[2]


def test_a_pair_goes_to_the_cheapest_shape_that_holds_it():
    shapes = BatchShape(5, 7, 1), BatchShape(11, 6, 1), BatchShape(13, 17, 1)
    lengths = np.array([[5, 7], [6, 2], [6, 7], [13, 1], [14, 1]])
    plan = make_plan(BucketPlanner(shapes, 100), lengths)
    shape_of = dict(zip(plan.pairs[plan.first_rows].tolist(), plan.shapes[:, 0].tolist()))
    assert shape_of == {0: 5, 1: 11, 2: 13, 3: 13}


@pytest.mark.parametrize(("tokens", "rows"), [(3, 1), (17, 1), (17 * 7, 7), (17 * 11, 10), (17 * 43, 40)])
def test_rows_follow_the_budget(tokens, rows):
    assert BatchShape.of_budget(13, 17, tokens).rows == rows


def test_length_counts_are_of_different_lengths():
    counts = LengthCounts.of(np.array([[3, 5], [2, 7], [3, 5]]), np.array([1, 10, 100]))
    assert counts.lengths.tolist() == [[2, 7], [3, 5]] and counts.pairs.tolist() == [10, 101]
    assert counts.up_to(5).pairs.tolist() == [101]
