"""An epoch's plan: which example goes to which place of which batch, as arrays, before anything is read."""

import dataclasses

import numpy as np

from tf_transformer.data.shapes import BatchShape


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
