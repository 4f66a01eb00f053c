"""Clean pairs spooled to disk in chunks that worker processes read, and the memory of pairs already seen.

Cleaning looks at a corpus once and in order; encoding can then be spread over processes without sending text
through pipes, and a corpus that is slow to read is read once.
"""

from __future__ import annotations

import abc
import dataclasses
import logging
import pathlib
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from tf_transformer.data.corpora import Pair

_log = logging.getLogger(__name__)


class SeenPairs:
    """Set of the pairs seen so far, as 64-bit hashes in a few sorted arrays.

    A Python set would need some 70 bytes per pair. Runs are merged when a younger one has grown to the size of an
    older one, so there are never more than log2(pairs / batch) of them. Two different pairs share a hash with a
    chance of n²/2⁶⁵: one in a million at six million pairs.

    Args:
        limit: how many pairs are remembered at most (8 bytes each); pairs after that are still compared with the
            remembered ones, but not with each other, and one warning is logged.
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
        hashes = pair_hashes(batch)
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


def pair_hashes(batch: Sequence[Pair]) -> np.ndarray:
    """The 64-bit hashes of pairs, the same on every machine. A line feed parts the sides: no sentence has one."""
    digests = [blake2b(source + b"\n" + target, digest_size=8).digest() for source, target in batch]
    return np.frombuffer(b"".join(digests), np.uint64)


CHUNK_PAIRS = 8192


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairChunk(abc.ABC):
    """Some consecutive pairs of a corpus.

    Attributes:
        first: number of the first pair.
        pairs: how many there are.
        part, weight: of the files that they are from.
    """

    first: int
    pairs: int
    part: int = 0
    weight: float = 1.0

    @abc.abstractmethod
    def read(self) -> tuple[list[bytes], list[bytes]]:
        """The sources and the targets."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chunk(PairChunk):
    """Pairs of a spool: `size` bytes of a file from `offset` on."""

    path: pathlib.Path
    offset: int
    size: int

    def read(self) -> tuple[list[bytes], list[bytes]]:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            lines = file.read(self.size).split(b"\n")
        if len(lines) != 2 * self.pairs + 1:
            raise ValueError(
                f"{self.path}: expected {self.pairs} pairs of lines at byte {self.offset}. Received: "
                f"{len(lines) - 1} lines. Check for a full disk, or a line feed inside a sentence."
            )
        return lines[0:-1:2], lines[1:-1:2]


class Spool:
    """File of pairs without line feeds, two lines per pair, divided into chunks."""

    def __init__(self, path: pathlib.Path, chunk_pairs: int = CHUNK_PAIRS):
        self._path, self._chunk_pairs = path, chunk_pairs
        self._file = path.open("wb")
        self._pending: list[bytes] = []
        self._offset = 0
        self._part, self._weight = 0, 1.0
        self.pairs = 0
        self.chunks: list[Chunk] = []

    def start_part(self, number: int, weight: float) -> None:
        """Begin the pairs of other files, with their own weight."""
        if self._pending:
            self._flush()
        self._part, self._weight = number, weight

    def add(self, pair: Pair) -> None:
        self._pending.append(b"%b\n%b\n" % pair)
        if len(self._pending) == self._chunk_pairs:
            self._flush()

    def close(self) -> None:
        if self._pending:
            self._flush()
        self._file.close()

    def _flush(self) -> None:
        data, count = b"".join(self._pending), len(self._pending)
        self._file.write(data)
        self.chunks.append(
            Chunk(
                first=self.pairs,
                pairs=count,
                part=self._part,
                weight=self._weight,
                path=self._path,
                offset=self._offset,
                size=len(data),
            )
        )
        self._offset += len(data)
        self.pairs += count
        self._pending.clear()
