"""Static shapes of batches, fitted to the lengths of a corpus: as few as keep the padding small.

XLA and TPUs compile a program for every shape, so there is a fixed set of them. A pair goes into the cheapest shape
that holds it. Shapes are chosen one by one for the lengths of the corpus, each the one that saves the most padding
given those chosen before.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

# A further shape leaves some of a batch empty at the end of each epoch: it has to save this share of a batch.
_BATCH_SHARE = 0.05
_REFINEMENTS = 6
# Rows shorter than this have room for too few sentences to fill them well.
_MIN_PACKED_ROW = 128


@dataclasses.dataclass(frozen=True, order=True)
class BatchShape:
    """The shape of a batch: source (rows, source) and target (rows, target)."""

    source: int
    target: int
    rows: int

    @classmethod
    def of_budget(cls, source: int, target: int, batch_tokens: int) -> "BatchShape":
        """As many rows as `batch_tokens` allow on the longer side, at least 1.

        A multiple of 8, which replicas and hardware like; of less where that would waste much of the budget.
        """
        rows = max(1, batch_tokens // int(max(source, target)))
        multiple = 8 if rows >= 32 else 4 if rows >= 16 else 2 if rows >= 8 else 1
        return cls(int(source), int(target), rows - rows % multiple)


class LengthCounts(NamedTuple):
    """Histogram of the lengths of a corpus: source and target lengths [cells, 2], and numbers of pairs [cells]."""

    lengths: np.ndarray
    pairs: np.ndarray

    @classmethod
    def of(cls, lengths: np.ndarray, pairs: np.ndarray | None = None) -> "LengthCounts":
        """The counts of pairs of the given lengths [N, 2], all different in the result."""
        keys, where = np.unique(lengths[:, 0].astype(np.int64) << 32 | lengths[:, 1], return_inverse=True)
        pairs = np.ones(len(lengths), np.int64) if pairs is None else pairs
        counts = np.zeros(len(keys), np.int64)
        np.add.at(counts, where.reshape(-1), pairs)
        return cls(np.stack([keys >> 32, keys & 0xFFFFFFFF], axis=1), counts)

    def up_to(self, max_length: int) -> "LengthCounts":
        """The counts of pairs with no longer side."""
        kept = (self.lengths <= max_length).all(1)
        return LengthCounts(self.lengths[kept], self.pairs[kept])


def fit_shapes(
    counts: LengthCounts, batch_tokens: int, max_shapes: int = 48, padding: float = 0.07
) -> tuple[BatchShape, ...]:
    """The shapes for pairs of the given lengths, smallest first; the last holds every pair.

    Args:
        counts: of source and target lengths.
        batch_tokens: of a batch, on each side.
        max_shapes: maximum number of shapes.
        padding: the share of padding (of all places, both sides) at which no more shapes are added.
    """
    cells, pairs = LengthCounts.of(_round_up(counts.lengths), counts.pairs)
    largest = cells.max(0)
    shapes = _choose(cells, pairs, largest, batch_tokens, max_shapes, padding)
    shapes = _refine(cells, pairs, shapes, largest)
    return tuple(sorted(BatchShape.of_budget(source, target, batch_tokens) for source, target in shapes))


def pack_shape(counts: LengthCounts, batch_tokens: int) -> BatchShape:
    """The one shape of packed batches.

    A row holds any single pair. Its sides are as long as the corpus's sides on average, or the shorter language would
    leave its side of every row partly empty.
    """
    row = max(min(_MIN_PACKED_ROW, batch_tokens), int(counts.lengths.max()))
    source, target = counts.pairs.astype(np.float64) @ counts.lengths
    return BatchShape.of_budget(
        row * max(1.0, source / target) + 0.999, row * max(1.0, target / source) + 0.999, batch_tokens
    )


def _round_up(lengths: np.ndarray) -> np.ndarray:
    """Lengths on a coarser grid, every one up to 32 and then in steps of at most a sixteenth: fewer cells to look at.

    Never above the longest length that there is.
    """
    step = np.maximum(1, 2.0 ** np.floor(np.log2(np.maximum(lengths - 1, 1) / 16))).astype(lengths.dtype)
    return np.minimum(-(-lengths // step) * step, lengths.max(0))


def _costs(cells: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """Places that a pair of each cell takes in each shape, infinite where it does not fit: [cells, shapes]."""
    fits = (cells[:, None, :] <= shapes[None, :, :]).all(2)
    return np.where(fits, shapes.sum(1, dtype=np.float64), np.inf)


def _choose(
    cells: np.ndarray, counts: np.ndarray, largest: np.ndarray, batch_tokens: int, max_shapes: int, padding: float
) -> np.ndarray:
    """Shapes one by one, each the cell that saves most.

    What a shape saves only falls as others are added, so an old figure is an upper bound: only the leader is
    computed anew (lazy greedy).
    """
    shapes = [largest]
    cost = np.full(len(cells), float(largest.sum()))
    tokens = (cells.sum(1) * counts).sum()
    saved = np.full(len(cells), np.inf)
    while len(shapes) < max_shapes and 1 - tokens / (cost @ counts) > padding:
        while True:
            leader = int(saved.argmax())
            new = np.minimum(cost, _costs(cells, cells[leader : leader + 1])[:, 0])
            gain = float((cost - new) @ counts)
            if gain >= np.partition(saved, -2)[-2] if len(saved) > 1 else True:
                break
            saved[leader] = gain
        if gain < _BATCH_SHARE * 2 * batch_tokens:
            break
        shapes.append(cells[leader])
        cost, saved[leader] = new, 0.0
    return np.array(shapes)


def _refine(cells: np.ndarray, counts: np.ndarray, shapes: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """The shapes after each has been moved to neighbouring lengths while that saves padding."""
    levels = [np.unique(cells[:, side]) for side in (0, 1)]
    shapes, costs = shapes.copy(), _costs(cells, shapes)
    for _ in range(_REFINEMENTS):
        before = shapes.copy()
        for index in range(len(shapes)):
            if (shapes[index] == largest).all():
                continue
            others = np.delete(costs, index, axis=1).min(1)
            around = _neighbours(shapes[index], levels)
            moved = np.minimum(others[:, None], _costs(cells, around))
            shapes[index] = around[int((counts @ moved).argmin())]
            costs[:, index] = _costs(cells, shapes[index : index + 1])[:, 0]
        if (shapes == before).all():
            break
    return np.unique(shapes, axis=0)


def _neighbours(shape: np.ndarray, levels: list[np.ndarray]) -> np.ndarray:
    """The shape itself, first, and those one level longer or shorter on either side: [up to 9, 2]."""
    near = []
    for side in (0, 1):
        place = int(np.searchsorted(levels[side], shape[side]))
        near.append([levels[side][i] for i in (place, place - 1, place + 1) if 0 <= i < len(levels[side])])
    return np.array([[source, target] for source in near[0] for target in near[1]])
