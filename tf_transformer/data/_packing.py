"""Packing: batches of one shape whose rows hold as many pairs as fit; planned in the graph."""

from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.data._bucketing import random_order
from tf_transformer.data._gathering import Plan
from tf_transformer.data._shapes import BatchShape


class PackPlanner:
    """Plans the batches of a part whose rows are packed with several pairs each.

    The histogram of lengths determines how many rows contain which lengths; the shuffled pairs of each length are then
    distributed over those rows, and the rows are shuffled.

    Args:
        shape: of all batches.
        max_length: pairs with a longer side are dropped.
    """

    packed = True

    def __init__(self, shape: BatchShape, max_length: int):
        self.shapes = (shape,)
        self._limits = min(shape.source, max_length), min(shape.target, max_length)

    def plan(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor) -> Plan:
        """The plan for pairs of the given lengths, each [pairs] int64, shuffled by `seed`, [2]."""
        shape = self.shapes[0]
        chosen = tf.where((source <= self._limits[0]) & (target <= self._limits[1]))[:, 0]
        key = tf.gather(source * (shape.target + 1) + target, chosen)
        by_cell = tf.argsort(key * 2**32 + random_order(tf.size(key), seed))
        cells, _, counts = tf.unique_with_counts(tf.gather(key, by_cell))
        patterns = _find_patterns(cells // (shape.target + 1), cells % (shape.target + 1), counts, shape)
        row, order = _deal(patterns, seed + tf.constant([0, 1], tf.int64))
        num_rows = tf.reduce_sum(patterns.repeats)
        first = tf.range(0, num_rows, shape.rows)
        sizes = tf.tile(tf.constant([[shape.source, shape.target, shape.rows]], tf.int64), [tf.size(first), 1])
        return Plan(
            pairs=tf.gather(chosen, tf.gather(by_cell, order)),
            row_splits=tf.searchsorted(row, tf.range(num_rows + 1), out_type=tf.int64),
            first_rows=first,
            num_rows=tf.minimum(num_rows - first, shape.rows),
            shapes=sizes,
        )


class _Patterns(NamedTuple):
    """Contents of rows: `repeats[i]` rows contain pairs of the cells `cells[splits[i]:splits[i + 1]]`; int64."""

    cells: tf.Tensor
    splits: tf.Tensor
    repeats: tf.Tensor


def _find_patterns(source: tf.Tensor, target: tf.Tensor, counts: tf.Tensor, shape: BatchShape) -> _Patterns:
    """Patterns that use up `counts` pairs of each cell, of lengths `source` and `target`, found greedily.

    A row takes, again and again, the pair that fits and goes furthest along what is still free on both sides (the dot
    product, a heuristic of vector bin packing); large ones come first because of that, which keeps the small ones for
    the gaps. The same filling is repeated until a cell is used up, so there are hardly more patterns than cells.
    """
    cells = tf.TensorArray(tf.int64, 0, dynamic_size=True, element_shape=[None], infer_shape=False)
    repeats = tf.TensorArray(tf.int32, 0, dynamic_size=True, element_shape=[])
    sizes = tf.TensorArray(tf.int64, 0, dynamic_size=True, element_shape=[])
    table = tf.range(tf.size(counts)), tf.cast(source, tf.float32), tf.cast(target, tf.float32), counts

    def add_pattern(
        number: tf.Tensor,
        table: tuple[tf.Tensor, ...],
        cells: tf.TensorArray,
        sizes: tf.TensorArray,
        repeats: tf.TensorArray,
    ) -> tuple[Any, ...]:
        names, source, target, left = table
        picked, after = _fill_row(source, target, left, shape)
        times = left - after
        repeat = tf.reduce_min(tf.where(times > 0, left // tf.maximum(times, 1), left.dtype.max))
        left -= repeat * times
        cells = cells.write(number, tf.cast(tf.gather(names, picked), tf.int64))
        sizes = sizes.write(number, tf.size(picked, tf.int64))
        return number + 1, _compact((names, source, target, left)), cells, sizes, repeats.write(number, repeat)

    _, _, cells, sizes, repeats = tf.while_loop(
        lambda number, table, *_: tf.reduce_any(table[3] > 0),
        add_pattern,
        (tf.constant(0), table, cells, sizes, repeats),
        shape_invariants=(tf.TensorShape([]), tuple([tf.TensorShape([None])] * 4), *[tf.TensorShape(None)] * 3),
        parallel_iterations=1,
    )
    splits = tf.pad(tf.cumsum(sizes.stack()), [[1, 0]])
    return _Patterns(cells.concat(), splits, tf.cast(repeats.stack(), tf.int64))


def _fill_row(source: tf.Tensor, target: tf.Tensor, left: tf.Tensor, shape: BatchShape) -> tuple[tf.Tensor, tf.Tensor]:
    """The cells of one row, [n] int32, and what is left of each cell after it.

    Of the best cell a row takes half as many pairs as would fit: fewer steps, and still room to choose.
    """
    picked, taken = (tf.TensorArray(tf.int32, 0, dynamic_size=True, element_shape=[]) for _ in range(2))

    def best(free_source: tf.Tensor, free_target: tf.Tensor, left: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        score = source * (free_source / shape.source**2) + target * (free_target / shape.target**2)
        fits = (source <= free_source) & (target <= free_target) & (left > 0)
        score = tf.where(fits, score, -1.0)
        index = tf.argmax(score, output_type=tf.int32)
        return index, score[index] >= 0

    def take(
        number: tf.Tensor,
        index: tf.Tensor,
        _: tf.Tensor,
        free_source: tf.Tensor,
        free_target: tf.Tensor,
        left: tf.Tensor,
        picked: tf.TensorArray,
        taken: tf.TensorArray,
    ) -> tuple[Any, ...]:
        lengths = source[index], target[index]
        fit = tf.minimum(free_source // tf.maximum(lengths[0], 1.0), free_target // tf.maximum(lengths[1], 1.0))
        count = (tf.minimum(tf.cast(fit, tf.int32), left[index]) + 1) // 2
        left = tf.tensor_scatter_nd_sub(left, [[index]], [count])
        free_source -= lengths[0] * tf.cast(count, tf.float32)
        free_target -= lengths[1] * tf.cast(count, tf.float32)
        chosen = best(free_source, free_target, left)
        arrays = picked.write(number, index), taken.write(number, count)
        return number + 1, *chosen, free_source, free_target, left, *arrays

    free = tf.constant(shape.source, tf.float32), tf.constant(shape.target, tf.float32)
    loop = tf.while_loop(
        lambda number, index, fits, *_: fits,
        take,
        (tf.constant(0), *best(*free, left), *free, left, picked, taken),
        parallel_iterations=1,
    )
    *_, left, picked, taken = loop
    return tf.repeat(picked.stack(), taken.stack()), left


def _compact(table: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
    """Remove cells that are used up once they are many, so that the rest is searched faster."""
    alive = table[3] > 0
    mostly = 4 * tf.math.count_nonzero(alive, dtype=tf.int32) > 3 * tf.size(alive)
    return tf.cond(mostly, lambda: table, lambda: tuple(tf.boolean_mask(column, alive) for column in table))


def _deal(patterns: _Patterns, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Assign a place to every pair, sorted by row: its row [n], and the pair's number in the order of cells [n]."""
    sizes = patterns.splits[1:] - patterns.splits[:-1]
    ends = tf.cumsum(sizes * patterns.repeats)
    places = tf.range(tf.reduce_sum(sizes * patterns.repeats))
    pattern = tf.searchsorted(ends, places, side="right", out_type=tf.int64)
    within = places - tf.gather(tf.pad(ends, [[1, 0]]), pattern)
    size = tf.gather(sizes, pattern)
    cell = tf.gather(patterns.cells, tf.gather(patterns.splits, pattern) + within % size)
    row = tf.gather(tf.cumsum(patterns.repeats, exclusive=True), pattern) + within // size
    shuffled = tf.argsort(random_order(tf.cast(tf.reduce_sum(patterns.repeats), tf.int32), seed))
    row = tf.gather(tf.cast(shuffled, tf.int64), row)
    # Places in the order of cells, like the pairs: the i-th of these places belongs to the i-th pair.
    by_cell = tf.argsort(cell * 2**32 + places)
    order = tf.argsort(tf.gather(row, by_cell) * 2**32 + tf.gather(places, by_cell))
    return tf.gather(tf.gather(row, by_cell), order), tf.cast(order, tf.int64)
