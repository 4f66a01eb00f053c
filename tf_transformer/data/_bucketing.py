"""Bucketing: batches of one pair per row, with pairs of similar lengths together; planned in the graph."""

from typing import Any

import numpy as np
import tensorflow as tf

from tf_transformer.data._gathering import Plan
from tf_transformer.data._shapes import BatchShape


class BucketPlanner:
    """Plans the batches of a part over a fixed set of shapes.

    The pairs of a shape are shuffled and divided into batches, and the batches are shuffled. Pairs that do not fill the
    last batch of their shape move to the next larger shape, unless empty rows are cheaper.

    Args:
        shapes: smallest first, the last holds every pair that any of them holds.
        max_length: pairs with a longer side are dropped.
    """

    packed = False

    def __init__(self, shapes: tuple[BatchShape, ...], max_length: int):
        self.shapes = tuple(sorted(shapes))
        self._next = [_next_larger(index, self.shapes) for index in range(len(self.shapes))]
        self._longest = max(max(shape.source, shape.target) for shape in self.shapes)
        self._shape_of = self._cheapest_shapes(max_length).reshape(-1)

    def plan(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor) -> Plan:
        """The plan for pairs of the given lengths, each [pairs] int64, shuffled by `seed`, [2]."""
        shuffled, starts = self._shuffle_by_shape(source, target, seed)
        pairs, counts = self._pass_on(shuffled, starts)
        first_rows, num_rows, shapes = self._split(counts, seed + tf.constant([0, 1], tf.int64))
        return Plan(pairs, tf.range(tf.size(pairs, tf.int64) + 1), first_rows, num_rows, shapes)

    def _cheapest_shapes(self, max_length: int) -> np.ndarray:
        """For all source and target lengths the index of the cheapest shape that holds them; -1 for none."""
        table = np.full((self._longest + 1,) * 2, -1, np.int32)
        by_cost = sorted(range(len(self.shapes)), key=lambda i: (self.shapes[i].source + self.shapes[i].target, i))
        for index in reversed(by_cost):
            shape = self.shapes[index]
            table[: min(shape.source, max_length) + 1, : min(shape.target, max_length) + 1] = index
        return table

    def _shuffle_by_shape(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The numbers of all pairs that fit, by shape and then in random order, and where each shape starts."""
        fits = tf.maximum(source, target) <= self._longest
        key = tf.where(fits, source * (self._longest + 1) + target, 0)
        shape_of = tf.where(fits, tf.cast(tf.gather(self._shape_of, key), tf.int64), -1)
        shuffled = tf.argsort(shape_of * 2**32 + random_order(tf.size(shape_of), seed))
        counts = tf.math.bincount(tf.cast(shape_of + 1, tf.int32), minlength=len(self.shapes) + 1, dtype=tf.int64)
        return tf.cast(shuffled, tf.int64), tf.cumsum(counts)

    def _pass_on(self, shuffled: tf.Tensor, starts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Move pairs that do not fill a batch to larger shapes; return the pairs by shape, and the count per shape.

        Shapes are sorted so that a larger one, which holds what a smaller one passes on, always comes later.
        """
        places = np.array([shape.source + shape.target for shape in self.shapes], np.int64)
        rows = tf.constant([shape.rows for shape in self.shapes], tf.int64)
        larger = [index if other is None else other for index, other in enumerate(self._next)]
        # The largest shape has no larger one: the cost is prohibitive.
        extra = np.where(np.arange(len(places)) == larger, 2**40, places[larger] - places)
        kept = tf.TensorArray(tf.int64, len(places), element_shape=[None], infer_shape=False)
        counts = tf.TensorArray(tf.int64, len(places), element_shape=[])
        nothing = tf.zeros([0], tf.int64), tf.zeros([0], tf.int32)

        def one(
            index: tf.Tensor, passed: tuple[tf.Tensor, tf.Tensor], kept: tf.TensorArray, counts: tf.TensorArray
        ) -> tuple[Any, ...]:
            pairs = tf.boolean_mask(passed[0], passed[1] == index)
            pairs = tf.concat([shuffled[starts[index] : starts[index + 1]], pairs], 0)
            count = tf.size(pairs, tf.int64)
            rest = count % rows[index]
            cheaper = rest * tf.gather(extra, index) < (rows[index] - rest) * tf.gather(places, index)
            keep = tf.where(cheaper, count - rest, count)
            to = tf.fill([count - keep], tf.gather(larger, index))
            passed = tf.concat([passed[0], pairs[keep:]], 0), tf.concat([passed[1], to], 0)
            return index + 1, passed, kept.write(index, pairs[:keep]), counts.write(index, keep)

        unknown = tf.TensorShape([None])
        _, _, kept, counts = tf.while_loop(
            lambda index, *_: index < len(places),
            one,
            (tf.constant(0), nothing, kept, counts),
            shape_invariants=(tf.TensorShape([]), (unknown, unknown), tf.TensorShape(None), tf.TensorShape(None)),
            parallel_iterations=1,
        )
        return kept.concat(), counts.stack()

    def _split(self, counts: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """First rows, numbers of rows and shapes of all batches, shuffled."""
        sizes = tf.constant([[shape.source, shape.target, shape.rows] for shape in self.shapes], tf.int64)
        batches = (counts + sizes[:, 2] - 1) // sizes[:, 2]
        total = tf.reduce_sum(batches)
        shape_of = tf.searchsorted(tf.cumsum(batches), tf.range(total), side="right", out_type=tf.int64)
        rows = tf.gather(sizes[:, 2], shape_of)
        within = (tf.range(total) - tf.gather(tf.cumsum(batches, exclusive=True), shape_of)) * rows
        first = tf.gather(tf.cumsum(counts, exclusive=True), shape_of) + within
        num = tf.minimum(rows, tf.gather(counts, shape_of) - within)
        order = tf.argsort(random_order(tf.cast(total, tf.int32), seed))
        return tf.gather(first, order), tf.gather(num, order), tf.gather(tf.gather(sizes, shape_of), order)


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
