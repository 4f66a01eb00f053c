"""A memory of sentence pairs that keeps eight bytes a pair."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from tf_transformer.data.corpus import Pair

_log = logging.getLogger(__name__)


class SeenPairs:
    """Tells new pairs from those seen before, by 64-bit hashes in a few sorted arrays.

    A Python set would need some 70 bytes a pair. Runs are merged when a younger one has grown to the size of an
    older one, so there are never more than log2(pairs / batch) of them. Two different pairs share a hash with a
    chance of n²/2⁶⁵: one in a million at six million pairs.

    Args:
        limit: how many pairs are remembered at most (8 bytes each); pairs after that are still compared with the
            remembered ones, but not with each other, and a warning says so once.
    """

    def __init__(self, limit: int = 1 << 27):
        self._limit = limit
        self._runs: list[np.ndarray] = []
        self._size = 0
        self._warned = False

    def __len__(self) -> int:
        return self._size

    def add(self, batch: Sequence[Pair]) -> list[Pair]:
        """The pairs of a batch that are new, in order; they are remembered."""
        hashes = _hashes(batch)
        # `first` are the places of each value's first occurrence: the rest repeats within the batch.
        values, first = np.unique(hashes, return_index=True)
        new = np.ones(len(values), bool)
        for run in self._runs:
            places = np.searchsorted(run, values)
            places[places == len(run)] = 0
            new &= run[places] != values
        self._remember(values[new])
        return [batch[place] for place in np.sort(first[new]).tolist()]

    def _remember(self, values: np.ndarray) -> None:
        if self._size >= self._limit:
            if not self._warned:
                _log.warning("Duplicates are looked for among the first %d distinct pairs only.", self._size)
                self._warned = True
            return
        if not len(values):
            return
        self._size += len(values)
        self._runs.append(values)
        while len(self._runs) > 1 and len(self._runs[-1]) * 2 > len(self._runs[-2]):
            younger, older = self._runs.pop(), self._runs.pop()
            merged = np.concatenate([older, younger])
            merged.sort(kind="stable")  # both halves are sorted already
            self._runs.append(merged)


def _hashes(batch: Sequence[Pair]) -> np.ndarray:
    """The 64-bit hashes of pairs, the same on every machine. A line feed parts the sides: no sentence has one."""
    digests = [blake2b(source + b"\n" + target, digest_size=8).digest() for source, target in batch]
    return np.frombuffer(b"".join(digests), np.uint64)
