"""Records of made-up pairs, in the form of a prepared directory that has a tokenizer of no text."""

import pathlib

import numpy as np

from tf_transformer.data._gathering import SpecialIds
from tf_transformer.data._pair_ids import PairIds
from tf_transformer.data._records import ShardReader, ShardWriter
from tf_transformer.data._shapes import LengthCounts

EOS, BOS = 3, 2


def listed_pairs(count: int, seed: int = 11, longest: int = 31) -> list[tuple[list[int], list[int]]]:
    """Random pairs; the first id of each side says which pair it is."""
    chance = np.random.default_rng(seed)
    return [
        tuple([100 + number, *chance.integers(4, 90, chance.integers(0, longest - 1)).tolist(), EOS] for _ in range(2))
        for number in range(count)
    ]


class ToyPrepared:
    """Stands for a `PreparedDataset` whose splits are lists of pairs.

    Args:
        folder: to write into.
        train, validation: pairs of ids.
        shards: of the training pairs, which go to them in turn.
        vocab_size: of both sides.
    """

    special_ids = SpecialIds(0, 0, BOS)

    def __init__(self, folder: pathlib.Path, train, validation=(), shards: int = 7, vocab_size: int = 60_000):
        self.path, self._vocab_size = folder, vocab_size
        self.pairs = {"train": list(train), "validation": list(validation)}
        self._files = {split: self._write(split, shards if split == "train" else 1) for split in self.pairs}

    def _write(self, split: str, shards: int) -> list[tuple[pathlib.Path, int]]:
        files = []
        for number in range(shards):
            writer = ShardWriter(self.path / f"{split}-{number:05d}.tfrecord", f"toy/{split}/{number}")
            own = self.pairs[split][number::shards]
            for first in range(0, len(own), 37):
                writer.write(PairIds.of(*zip(*own[first : first + 37]), np.dtype("<u2")))
            writer.close()
            files.append((writer.path, writer.pairs))
        return files

    def reader(self, split: str) -> ShardReader:
        paths, pairs = zip(*self._files[split])
        origins = [f"toy/{split}/{number}" for number in range(len(paths))]
        return ShardReader(paths, pairs, origins, "<u2", (self._vocab_size,) * 2)

    def length_counts(self, split: str) -> LengthCounts:
        lengths = np.array([(len(source), len(target)) for source, target in self.pairs[split]], np.int64)
        return LengthCounts.of(lengths.reshape(-1, 2))


def pairs_in(batch):
    """The pairs of a batch, read back from its arrays alone: (source, decoder input, labels)."""
    for row in range(len(batch["source"])):
        segments = batch.get("source_segments")
        numbers = [1] if segments is None else range(1, segments[row].max() + 1)
        for number in numbers:
            source, target, labels = (
                batch[name][row] if segments is None else batch[name][row][batch[f"{side}_segments"][row] == number]
                for name, side in (("source", "source"), ("target", "target"), ("labels", "target"))
            )
            source, target, labels = source[source > 0], target[target > 0], labels[labels > 0]
            if len(source):
                yield source, target, labels
