"""Blocks of training pairs, cleaned by Beam workers: files of pairs, the duplicates among them, and samples.

Text stays in files that workers read and write; only hashes and counts pass through Beam's shuffle.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from tf_transformer._beam import join, read_bytes, write_bytes
from tf_transformer.data.corpora import Pair, Split
from tf_transformer.data.preparation._cleaning import Cleaner, CleaningReport
from tf_transformer.data.preparation._spool import PairChunk, pair_hashes

HASHES = "hashes"
"""Name of the second output of `CleanBlocks`."""

Key = tuple[int, int, int]
"""Order of a block in the split: part, place in the part, and number of the block at this place."""


@dataclasses.dataclass(frozen=True)
class Block:
    """A file of clean pairs, two lines each, and what was dropped before it was written."""

    key: Key
    path: str
    pairs: int
    report: CleaningReport

    def read(self) -> list[bytes]:
        """Sources and targets in turn."""
        return read_block(self.path, self.pairs)


@functools.lru_cache(maxsize=2)
def read_block(path: str, pairs: int) -> list[bytes]:
    """The lines of a file of pairs; the last two are kept, because the next chunk often begins where one ended."""
    lines = read_bytes(path).split(b"\n")
    if len(lines) != 2 * pairs + 1 or lines[-1]:
        raise ValueError(
            f"{path}: expected {pairs} pairs of lines. Received: {len(lines) - 1} lines; the file is damaged. "
            "Check for a full disk, and run the command again."
        )
    return lines[:-1]


def _write_block(path: str, pairs: Iterable[Pair]) -> None:
    write_bytes(path, b"".join(b"%b\n%b\n" % pair for pair in pairs))


@dataclasses.dataclass(frozen=True)
class CleanBlocks:
    """Clean a part of a split into blocks: from (part, place, pairs) to each `Block`, and to hashes by bucket.

    Attributes:
        scratch: directory of the files.
        cleaner: drops no duplicates, for which one worker would have to see all pairs.
        buckets: into which hashes are divided; 0 for no hashes.
        block_pairs: pairs that are read for a block.
    """

    scratch: str
    cleaner: Cleaner
    buckets: int
    block_pairs: int

    def __call__(self, unit: tuple[int, int, Split]) -> Iterator[Any]:
        from apache_beam.pvalue import TaggedOutput

        part, place, pairs = unit
        remaining = iter(pairs)
        number = 0
        while batch := list(islice(remaining, self.block_pairs)):
            key, report = (part, place, number), CleaningReport()
            kept = list(self.cleaner.clean(batch, report))
            path = join(self.scratch, "blocks", "-".join(f"{each:06d}" for each in key))
            _write_block(path, kept)
            yield Block(key, path, len(kept), report)
            for bucket, positions, hashes in self._buckets(kept):
                yield TaggedOutput(HASHES, (bucket, (key, positions, hashes)))
            number += 1

    def _buckets(self, kept: list[Pair]) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        if not self.buckets or not kept:
            return
        hashes = pair_hashes(kept)
        bucket_of = hashes % np.uint64(self.buckets)
        for bucket in np.unique(bucket_of).tolist():
            positions = np.flatnonzero(bucket_of == bucket).astype(np.int32)
            yield bucket, positions, hashes[positions]


def find_duplicates(group: tuple[int, Iterable[tuple[Key, np.ndarray, np.ndarray]]]) -> Iterator[tuple[Key, Any]]:
    """From all hashes of a bucket to the places of duplicates in each block; the first occurrence is none."""
    entries = sorted(group[1], key=lambda entry: entry[0])
    hashes = np.concatenate([entry[2] for entry in entries])
    repeated = np.ones(len(hashes), bool)
    repeated[np.unique(hashes, return_index=True)[1]] = False
    ends = np.cumsum([len(entry[2]) for entry in entries])
    for (key, positions, _), own in zip(entries, np.split(repeated, ends[:-1])):
        if own.any():
            yield key, positions[own]


def drop_duplicates(group: tuple[Key, dict[str, Iterable]]) -> Block:
    """A block without its duplicates, in a new file if it has any."""
    (block,) = group[1]["blocks"]
    found = list(group[1]["duplicates"])
    if not found:
        return block
    repeated = set(np.concatenate(found).tolist())
    lines = block.read()
    pairs = [(lines[2 * i], lines[2 * i + 1]) for i in range(block.pairs) if i not in repeated]
    path = f"{block.path}-unique"
    _write_block(path, pairs)
    report = CleaningReport()
    report.add(block.report)
    report.kept -= len(repeated)
    report.dropped["duplicate"] += len(repeated)
    return Block(block.key, path, len(pairs), report)


@dataclasses.dataclass(frozen=True)
class BlockSample:
    """Pairs of a block that are in the sample for the vocabulary, and the file that they are written to."""

    block: Block
    chosen: np.ndarray
    path: str

    def write(self) -> None:
        lines = self.block.read()
        _write_block(self.path, ((lines[2 * i], lines[2 * i + 1]) for i in self.chosen.tolist()))

    def read(self) -> list[bytes]:
        lines = read_block(self.path, len(self.chosen))
        return [b"%b\n%b" % pair for pair in zip(lines[::2], lines[1::2])]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockChunk(PairChunk):
    """Pairs of one block or several: the same chunks as on one machine.

    Attributes:
        slices: blocks, and the first and last places in them.
    """

    slices: tuple[tuple[Block, int, int], ...]

    def read(self) -> tuple[list[bytes], list[bytes]]:
        lines = [line for block, start, end in self.slices for line in block.read()[2 * start : 2 * end]]
        return lines[::2], lines[1::2]


def chunks_of(blocks: Iterable[Block], part: int, weight: float, first: int, chunk_pairs: int) -> list[BlockChunk]:
    """The pairs of a part in chunks; the first pair has the number `first`."""
    chunks: list[BlockChunk] = []
    slices: list[tuple[Block, int, int]] = []
    held = 0

    def finish() -> None:
        nonlocal held, first
        if held:
            chunks.append(BlockChunk(first=first, pairs=held, part=part, weight=weight, slices=tuple(slices)))
        first, held = first + held, 0
        slices.clear()

    for block in blocks:
        start = 0
        while start < block.pairs:
            end = min(block.pairs, start + chunk_pairs - held)
            slices.append((block, start, end))
            held, start = held + end - start, end
            if held == chunk_pairs:
                finish()
    finish()
    return chunks
