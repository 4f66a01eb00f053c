"""Epoch plans: which example goes to which place of which batch, one per row (buckets) or packed."""

import dataclasses

import numpy as np

from tf_transformer.data._shapes import BatchShape, assign_shapes, fit_shapes, unique_lengths


@dataclasses.dataclass(frozen=True)
class BatchPlan:
    """One batch: its shape and, for each of its n examples, number, row and place in the row (each [n]).

    `source_at`, `target_at` and `segment` (from 1) are None where every row holds one example.
    """

    shape: BatchShape
    examples: np.ndarray
    rows: np.ndarray
    source_at: np.ndarray | None = None
    target_at: np.ndarray | None = None
    segments: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class EpochPlan:
    """All batches of an epoch. `starts` [batches + 1] cuts the arrays of examples; every example is there once."""

    shapes: tuple[BatchShape, ...]
    shape_of_batch: np.ndarray
    starts: np.ndarray
    examples: np.ndarray
    rows: np.ndarray
    source_at: np.ndarray | None = None
    target_at: np.ndarray | None = None
    segments: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.shape_of_batch)

    def __getitem__(self, batch: int) -> BatchPlan:
        cut = slice(int(self.starts[batch]), int(self.starts[batch + 1]))
        places = [None if a is None else a[cut] for a in (self.source_at, self.target_at, self.segments)]
        return BatchPlan(self.shapes[self.shape_of_batch[batch]], self.examples[cut], self.rows[cut], *places)

    def padding(self, lengths: np.ndarray) -> float:
        """The share of all places, both sides and rows without an example included, that hold no token."""
        places = np.array([shape.rows * (shape.source + shape.target) for shape in self.shapes])
        return 1.0 - float(lengths[self.examples].sum()) / float(places[self.shape_of_batch].sum())


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
