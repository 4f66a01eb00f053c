"""Examples: pairs of ids by number, wherever they lie, with their lengths known beforehand."""

import bisect
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tf_transformer.data.records import Shard

IdPair = tuple[np.ndarray, np.ndarray]


class Examples(Protocol):
    """Numbered pairs (source ids, target ids), each side ending in END.

    Attributes:
        lengths: of source and target, [N, 2] int32.
    """

    lengths: np.ndarray

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> IdPair: ...


class ShardedExamples:
    """The examples of several shards, one after another."""

    def __init__(self, shards: Sequence[Shard]):
        self._shards = list(shards)
        self._starts = np.cumsum([0, *map(len, self._shards)]).tolist()
        self.lengths = np.concatenate([np.zeros((0, 2), np.int32), *(shard.lengths for shard in self._shards)])

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> IdPair:
        shard = bisect.bisect_right(self._starts, index) - 1
        return self._shards[shard][index - self._starts[shard]]


class Selection:
    """Some of the examples, numbered anew: number i is number `chosen[i]` of all."""

    def __init__(self, examples: Examples, chosen: np.ndarray):
        self._examples, self._chosen = examples, chosen
        self.lengths = examples.lengths[chosen]

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, index: int) -> IdPair:
        return self._examples[self._chosen[index]]


class EncodedLines:
    """Lines of text, encoded in memory: for validation sets."""

    def __init__(self, tokenizers, sources: Sequence[str], targets: Sequence[str]):
        encoded = zip(tokenizers.source.encode_batch(sources), tokenizers.target.encode_batch(targets), strict=True)
        self._pairs = [(np.array(source, np.int32), np.array(target, np.int32)) for source, target in encoded]
        self.lengths = np.array([(len(s), len(t)) for s, t in self._pairs], np.int32).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: int) -> IdPair:
        return self._pairs[index]
