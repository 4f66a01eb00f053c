"""Buckets: batches of one example a row, with examples of like lengths together."""

import numpy as np

from tf_transformer.data.epoch_plan import EpochPlan
from tf_transformer.data.shapes import BatchShape, assign_shapes, fit_shapes


class Buckets:
    """Plans epochs of one example a row over a fixed set of shapes.

    Each epoch the examples of a shape are shuffled and cut into batches, and the batches are shuffled. What does not
    fill a last batch of its shape moves on to the next larger shape, unless empty rows are cheaper.

    Args:
        lengths: source and target lengths [N, 2] of the examples.
        batch_tokens: of a batch, on each side.
        max_shapes: how many shapes at most.
        shapes: the shapes, if they are not to be fitted to `lengths`.
    """

    def __init__(
        self, lengths: np.ndarray, batch_tokens: int, max_shapes: int = 48, shapes: tuple[BatchShape, ...] | None = None
    ):
        self.shapes = shapes or fit_shapes(lengths, batch_tokens, max_shapes)
        self._shape_of = assign_shapes(lengths, self.shapes)
        self._next = [_next_larger(index, self.shapes) for index in range(len(self.shapes))]

    def plan(self, generator: np.random.Generator) -> EpochPlan:
        """The plan of one epoch; all chance comes from `generator`."""
        order = generator.permutation(len(self._shape_of))
        order = order[np.argsort(self._shape_of[order], kind="stable")]
        ends = np.cumsum(np.bincount(self._shape_of, minlength=len(self.shapes)))
        waiting = np.split(order, ends[:-1])
        batches: list[np.ndarray] = []
        shape_of_batch: list[int] = []
        # Shapes are sorted so that a larger one, which holds what a smaller one passes on, always comes later.
        for index, shape in enumerate(self.shapes):
            full = len(waiting[index]) // shape.rows * shape.rows
            batches.extend(waiting[index][:full].reshape(-1, shape.rows))
            rest = waiting[index][full:]
            larger = self._next[index]
            if larger is not None and self._passes_on(len(rest), shape, self.shapes[larger]):
                waiting[larger] = np.concatenate([waiting[larger], rest])
            elif len(rest):
                batches.append(rest)
            shape_of_batch += [index] * (len(batches) - len(shape_of_batch))
        return self._shuffled(batches, np.array(shape_of_batch, np.int64), generator)

    @staticmethod
    def _passes_on(rest: int, shape: BatchShape, larger: BatchShape) -> bool:
        """Whether `rest` examples waste fewer places in rows of a larger shape than in a batch of their own."""
        in_larger = rest * (larger.source + larger.target - shape.source - shape.target)
        return in_larger < (shape.rows - rest) * (shape.source + shape.target)

    def _shuffled(
        self, batches: list[np.ndarray], shape_of_batch: np.ndarray, generator: np.random.Generator
    ) -> EpochPlan:
        order = generator.permutation(len(batches))
        sizes = np.array([len(batches[i]) for i in order], np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        examples = np.concatenate([np.zeros(0, np.int64), *(batches[i] for i in order)])
        rows = np.arange(len(examples)) - np.repeat(starts[:-1], sizes)
        return EpochPlan(self.shapes, shape_of_batch[order], starts, examples, rows)


def _next_larger(index: int, shapes: tuple[BatchShape, ...]) -> int | None:
    """The cheapest other shape that holds whatever shape `index` holds; None for the largest."""
    own = shapes[index]
    larger = [
        other
        for other, shape in enumerate(shapes)
        if other != index and shape.source >= own.source and shape.target >= own.target
    ]
    return min(larger, key=lambda other: shapes[other].source + shapes[other].target, default=None)
