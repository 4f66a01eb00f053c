"""Packing: batches of one shape whose rows hold as many examples as fit, told apart by segment ids."""

import numpy as np

from tf_transformer.data.epoch_plan import EpochPlan
from tf_transformer.data.shapes import BatchShape, unique_lengths

# Rows shorter than this have room for too few sentences to fill them well.
_MIN_ROW = 128


def pack_shape(lengths: np.ndarray, batch_tokens: int) -> BatchShape:
    """The one shape of packed batches.

    A row holds any single example. Its sides are as long as the corpus's sides on average, or the shorter language
    would leave its side of every row partly empty.
    """
    row = max(min(_MIN_ROW, batch_tokens), int(lengths.max()))
    source, target = lengths.sum(0, dtype=np.float64)
    return BatchShape.of_budget(
        row * max(1.0, source / target) + 0.999, row * max(1.0, target / source) + 0.999, batch_tokens
    )


class Packing:
    """Plans epochs of rows that are packed with several examples each.

    How many rows hold which lengths is found once, from the histogram of lengths; an epoch then deals its shuffled
    examples of each length to those rows, and shuffles the rows.

    Args:
        lengths: source and target lengths [N, 2] of the examples.
        batch_tokens: of a batch, on each side.
        shape: the shape, if it is not to be fitted to `lengths`.
    """

    def __init__(self, lengths: np.ndarray, batch_tokens: int, shape: BatchShape | None = None):
        self.shapes = (shape or pack_shape(lengths, batch_tokens),)
        cells, self._cell_of, counts = unique_lengths(lengths)
        self._slots = _deal(cells, _patterns(cells, counts, self.shapes[0]))
        self._num_rows = int(self._slots["row"].max()) + 1 if len(lengths) else 0

    def plan(self, generator: np.random.Generator) -> EpochPlan:
        """The plan of one epoch; all chance comes from `generator`."""
        examples = generator.permutation(len(self._cell_of))
        # Examples by cell, like the slots: the i-th example goes to the i-th slot.
        examples = examples[np.argsort(self._cell_of[examples], kind="stable")]
        row = generator.permutation(self._num_rows)[self._slots["row"]]
        order = np.argsort(row, kind="stable")
        rows = self.shapes[0].rows
        batches = -(-self._num_rows // rows)
        return EpochPlan(
            shapes=self.shapes,
            shape_of_batch=np.zeros(batches, np.int64),
            starts=np.searchsorted(row[order] // rows, np.arange(batches + 1)),
            examples=examples[order],
            rows=row[order] % rows,
            source_at=self._slots["source_at"][order],
            target_at=self._slots["target_at"][order],
            segments=self._slots["segment"][order],
        )


def _patterns(cells: np.ndarray, counts: np.ndarray, shape: BatchShape) -> list[tuple[int, list[int]]]:
    """How the rows are filled: (number of rows, the cells of each of them), found greedily.

    A row takes, again and again, the example that fits and goes furthest along what is still free on both sides (the
    dot product, a heuristic of vector bin packing); large ones come first because of that, which keeps the small ones
    for the gaps. The same filling is repeated until a cell is used up, so there are hardly more patterns than cells.
    """
    size = np.array([shape.source, shape.target])
    left = counts.copy()
    patterns = []
    while left.any():
        alive = np.flatnonzero(left)
        pattern = _fill_row(cells[alive], left[alive].copy(), size)
        used, times = np.unique(alive[pattern], return_counts=True)
        repeats = int((left[used] // times).min())
        left[used] -= repeats * times
        patterns.append((repeats, alive[pattern].tolist()))
    return patterns


def _fill_row(cells: np.ndarray, left: np.ndarray, size: np.ndarray) -> list[int]:
    source, target = cells[:, 0], cells[:, 1]
    free_source, free_target = int(size[0]), int(size[1])
    pattern = []
    while True:
        fits = (source <= free_source) & (target <= free_target) & (left > 0)
        score = source * (free_source / size[0] ** 2) + target * (free_target / size[1] ** 2)
        best = int(np.where(fits, score, -1.0).argmax())
        if not fits[best]:
            return pattern
        pattern.append(best)
        left[best] -= 1
        free_source -= int(source[best])
        free_target -= int(target[best])


def _deal(cells: np.ndarray, patterns: list[tuple[int, list[int]]]) -> dict[str, np.ndarray]:
    """A slot for every example, sorted by cell: its row, its places in the row and its segment."""
    columns: dict[str, list[np.ndarray]] = {name: [] for name in ("cell", "row", "source_at", "target_at", "segment")}
    first_row = 0
    for repeats, pattern in patterns:
        ends = np.cumsum(cells[pattern], axis=0)
        starts = ends - cells[pattern]
        columns["cell"].append(np.tile(pattern, repeats))
        columns["row"].append(np.repeat(np.arange(first_row, first_row + repeats), len(pattern)))
        columns["source_at"].append(np.tile(starts[:, 0], repeats))
        columns["target_at"].append(np.tile(starts[:, 1], repeats))
        columns["segment"].append(np.tile(np.arange(1, len(pattern) + 1), repeats))
        first_row += repeats
    slots = {name: np.concatenate([np.zeros(0, np.int64), *parts]) for name, parts in columns.items()}
    order = np.argsort(slots["cell"], kind="stable")
    return {name: values[order].astype(np.int32) for name, values in slots.items()}
