"""Pairs of ids in NumPy arrays, without TensorFlow, for the worker processes of `prepare`."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ID_TYPES = ("<u2", "<i4")
"""Types of ids in records: two bytes for the usual sizes of vocabularies, else four."""


def id_type(vocab_size: int) -> np.dtype:
    """The smallest type that holds the ids of a vocabulary."""
    return np.dtype(ID_TYPES[0] if vocab_size <= 2**16 else ID_TYPES[1])


class PairIds(NamedTuple):
    """Pairs of ids.

    Attributes:
        source, target: ids of all sentences, one after another.
        lengths: of source and target, [pairs, 2] int32.
    """

    source: np.ndarray
    target: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, sources: Sequence[list[int]], targets: Sequence[list[int]], dtype: np.dtype) -> "PairIds":
        """The pairs of two lists of sentences."""
        source, target = (np.array([i for ids in side for i in ids], dtype) for side in (sources, targets))
        lengths = np.array([(len(s), len(t)) for s, t in zip(sources, targets, strict=True)], np.int32)
        return cls(source, target, lengths.reshape(-1, 2))

    def split(self, counts: Sequence[int] | np.ndarray) -> list["PairIds"]:
        """Split into consecutive groups of `counts` pairs."""
        ends = np.cumsum(counts)
        tokens = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(self.lengths, 0, np.int64)])[ends]
        sides = [np.split(side, tokens[:-1, i]) for i, side in enumerate((self.source, self.target))]
        return [PairIds(*part) for part in zip(*sides, np.split(self.lengths, ends[:-1]))]
