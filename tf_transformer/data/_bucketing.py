"""Bucketing: batches of one pair per row, with pairs of similar lengths together; planned in the graph."""

import numpy as np
import tensorflow as tf

from tf_transformer.data._gathering import Plan
from tf_transformer.data._shapes import BatchShape


class BucketPlanner:
    """Plans the batches of a part over a fixed set of shapes.

    The pairs of a shape are shuffled and cut into batches, and the batches are shuffled. What does not fill a last
    batch of its shape moves on to the next larger shape, unless empty rows are cheaper.

    Args:
        shapes: smallest first, the last holds every pair that any of them holds.
        max_length: pairs with a longer side are left out.
    """

    packed = False

    def __init__(self, shapes: tuple[BatchShape, ...], max_length: int):
        self.shapes = tuple(sorted(shapes))
        self._next = [_next_larger(index, self.shapes) for index in range(len(self.shapes))]
        self._longest = max(max(shape.source, shape.target) for shape in self.shapes)
        self._shape_of = self._cheapest_shapes(max_length).reshape(-1)

    def plan(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor) -> Plan:
        """The plan for pairs of the given lengths, each [pairs] int64, shuffled by `seed`, [2]."""
        waiting = self._shuffled_by_shape(source, target, seed)
        kept, batches, counts = [], [], []
        # Shapes are sorted so that a larger one, which holds what a smaller one passes on, always comes later.
        for index, shape in enumerate(self.shapes):
            pairs = tf.concat(waiting[index], 0)
            keep = self._keep(tf.size(pairs, tf.int64), index)
            if self._next[index] is not None:
                waiting[self._next[index]].append(pairs[keep:])
            kept.append(pairs[:keep])
            counts.append(keep)
            batches.append((keep + shape.rows - 1) // shape.rows)
        pairs = tf.concat(kept, 0)
        batches = self._batches(tf.stack(counts), tf.stack(batches), seed)
        return Plan(pairs, tf.range(tf.size(pairs, tf.int64) + 1), *batches)

    def _cheapest_shapes(self, max_length: int) -> np.ndarray:
        """For all source and target lengths the index of the cheapest shape that holds them; -1 for none."""
        table = np.full((self._longest + 1,) * 2, -1, np.int32)
        by_cost = sorted(range(len(self.shapes)), key=lambda i: (self.shapes[i].source + self.shapes[i].target, i))
        for index in reversed(by_cost):
            shape = self.shapes[index]
            table[: min(shape.source, max_length) + 1, : min(shape.target, max_length) + 1] = index
        return table

    def _shuffled_by_shape(self, source, target, seed) -> list[list[tf.Tensor]]:
        """For each shape a list of one tensor: the numbers of its pairs, in random order."""
        fits = tf.maximum(source, target) <= self._longest
        key = tf.where(fits, source * (self._longest + 1) + target, 0)
        shape_of = tf.where(fits, tf.cast(tf.gather(self._shape_of, key), tf.int64), -1)
        shuffled = tf.argsort(shape_of * 2**32 + random_order(tf.size(shape_of), seed))
        counts = tf.math.bincount(tf.cast(shape_of + 1, tf.int32), minlength=len(self.shapes) + 1, dtype=tf.int64)
        parts = tf.split(tf.cast(shuffled, tf.int64), tf.ensure_shape(counts, [len(self.shapes) + 1]))
        return [[part] for part in parts[1:]]

    def _keep(self, count: tf.Tensor, index: int) -> tf.Tensor:
        """How many of `count` pairs stay in a shape; the others waste fewer places in rows of the next larger one."""
        shape, larger = self.shapes[index], self._next[index]
        if larger is None:
            return count
        rest = count % shape.rows
        own = shape.source + shape.target
        in_larger = rest * (self.shapes[larger].source + self.shapes[larger].target - own)
        return tf.where(in_larger < (shape.rows - rest) * own, count - rest, count)

    def _batches(self, counts, batches, seed) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """First rows, numbers of rows and shapes of all batches, shuffled."""
        total = tf.reduce_sum(batches)
        shape_of = tf.searchsorted(tf.cumsum(batches), tf.range(total), side="right", out_type=tf.int64)
        shape_of_row = tf.constant([[shape.source, shape.target, shape.rows] for shape in self.shapes], tf.int64)
        rows = tf.gather(shape_of_row[:, 2], shape_of)
        within = (tf.range(total) - tf.gather(tf.cumsum(batches, exclusive=True), shape_of)) * rows
        first = tf.gather(tf.cumsum(counts, exclusive=True), shape_of) + within
        num = tf.minimum(rows, tf.gather(counts, shape_of) - within)
        order = tf.argsort(random_order(tf.cast(total, tf.int32), seed + [0, 1]))
        return tf.gather(first, order), tf.gather(num, order), tf.gather(shape_of_row, tf.gather(shape_of, order))


def random_order(count: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Random numbers to sort by, [count] int64 below 2^32: the same for the same seed everywhere."""
    bits = tf.random.stateless_uniform([count], seed, minval=None, maxval=None, dtype=tf.uint32, alg="philox")
    return tf.cast(bits, tf.int64)


def _next_larger(index: int, shapes: tuple[BatchShape, ...]) -> int | None:
    """The cheapest other shape that holds whatever shape `index` holds; None for the largest."""
    own = shapes[index]
    larger = [
        other
        for other, shape in enumerate(shapes)
        if other != index and shape.source >= own.source and shape.target >= own.target
    ]
    return min(larger, key=lambda other: shapes[other].source + shapes[other].target, default=None)
