"""Plans of epochs: every example once and inside its place, few shapes, little padding."""

import numpy as np
import pytest

from tf_transformer.data._planning import Buckets, Packing
from tf_transformer.data._shapes import BatchShape, assign_shapes, fit_shapes


def corpus_lengths(count, seed=5, longest=97):
    """Lengths as sentences have them: log-normal, the two sides alike but not equal."""
    chance = np.random.default_rng(seed)
    source = np.exp(chance.normal(2.9, 0.6, count))
    target = 1.1 * source * np.exp(chance.normal(0, 0.15, count))
    return np.clip(np.stack([source, target], axis=1), 2, longest).astype(np.int32)


LENGTHS = corpus_lengths(20_011)
PLANNERS = {"buckets": Buckets, "packing": Packing}


def places_of(plan, lengths):
    """For every example (batch, row, source start, source end, target start, target end), and checks the bounds."""
    places = []
    for number in range(len(plan)):
        batch = plan[number]
        zeros = np.zeros(len(batch.examples), np.int64)
        source_at = zeros if batch.source_at is None else batch.source_at
        target_at = zeros if batch.target_at is None else batch.target_at
        ends = np.stack([source_at, target_at], axis=1) + lengths[batch.examples]
        assert (ends[:, 0] <= batch.shape.source).all() and (ends[:, 1] <= batch.shape.target).all()
        assert batch.rows.max() < batch.shape.rows
        places += [(number, *row) for row in zip(batch.rows, source_at, ends[:, 0], target_at, ends[:, 1])]
    return places


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS.keys())
@pytest.mark.parametrize("batch_tokens", [53, 307, 4096])
def test_every_example_once_and_in_a_place_of_its_own(planner, batch_tokens):
    lengths = LENGTHS[:2003]
    plan = planner(lengths, batch_tokens).plan(np.random.default_rng(0))
    assert sorted(plan.examples.tolist()) == list(range(2003))
    taken = set()
    for batch, row, source_start, source_end, target_start, target_end in places_of(plan, lengths):
        cells = {(batch, row, 0, i) for i in range(source_start, source_end)}
        cells |= {(batch, row, 1, i) for i in range(target_start, target_end)}
        assert not cells & taken
        taken |= cells


def test_packed_segments_count_from_one_in_each_row():
    plan = Packing(LENGTHS[:997], 1009).plan(np.random.default_rng(0))
    for number in range(len(plan)):
        batch = plan[number]
        for row in np.unique(batch.rows):
            inside = batch.rows == row
            assert sorted(batch.segments[inside]) == list(range(1, inside.sum() + 1))
            order = np.argsort(batch.source_at[inside])
            ends = (batch.source_at[inside] + LENGTHS[batch.examples[inside], 0])[order]
            assert (batch.source_at[inside][order] == np.concatenate([[0], ends[:-1]])).all()


def test_padding_of_buckets_and_packing():
    buckets = Buckets(LENGTHS, 4096)
    assert buckets.plan(np.random.default_rng(0)).padding(LENGTHS) < 0.10
    assert len(buckets.shapes) <= 48
    packing = Packing(LENGTHS, 4096)
    assert packing.plan(np.random.default_rng(0)).padding(LENGTHS) < 0.03
    assert len(packing.shapes) == 1


def test_padding_counts_empty_rows():
    lengths = np.array([[5, 7]] * 3)
    plan = Buckets(lengths, 56).plan(np.random.default_rng(0))
    assert plan.shapes == (BatchShape(5, 7, 8),)
    assert plan.padding(lengths) == pytest.approx(5 / 8)


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS.keys())
def test_chance_comes_from_the_generator_alone(planner):
    plans = [planner(LENGTHS, 4096).plan(np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert (plans[0].examples == plans[1].examples).all() and (plans[0].rows == plans[1].rows).all()
    assert (plans[0].examples != plans[2].examples).mean() > 0.9


def test_short_and_long_batches_are_mixed():
    plan = Buckets(LENGTHS, 1024).plan(np.random.default_rng(0))
    sizes = np.array([plan[i].shape.source for i in range(len(plan))])
    half = len(sizes) // 2
    assert abs(sizes[:half].mean() - sizes[half:].mean()) < 0.2 * sizes.mean()


def test_the_largest_shape_holds_every_pair_and_the_number_is_bounded():
    for limit in (1, 2, 7):
        shapes = fit_shapes(LENGTHS, 4096, max_shapes=limit)
        assert len(shapes) <= limit
        assert (shapes[-1].source, shapes[-1].target) == tuple(LENGTHS.max(0))
        assert (assign_shapes(LENGTHS, shapes) >= 0).all()


def test_more_shapes_mean_less_padding():
    def padding(limit):
        return Buckets(LENGTHS, 1024, limit).plan(np.random.default_rng(0)).padding(LENGTHS)

    assert padding(16) < padding(4) < padding(1)


def test_a_pair_goes_to_the_cheapest_shape_that_holds_it():
    shapes = (BatchShape(5, 7, 1), BatchShape(11, 6, 1), BatchShape(13, 17, 1))
    pairs = np.array([[5, 7], [6, 2], [6, 7], [13, 1], [14, 1]])
    assert assign_shapes(pairs, shapes).tolist() == [0, 1, 2, 2, -1]


@pytest.mark.parametrize(("tokens", "rows"), [(3, 1), (17, 1), (17 * 7, 7), (17 * 11, 10), (17 * 43, 40)])
def test_rows_follow_the_budget(tokens, rows):
    assert BatchShape.of_budget(13, 17, tokens).rows == rows
