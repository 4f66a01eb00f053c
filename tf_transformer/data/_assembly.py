"""Assembling a batch: the examples of its plan put in their places, and everything else padded."""

import bisect
import dataclasses
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tf_transformer.data._planning import BatchPlan
from tf_transformer.data._records import Shard

IdPair = tuple[np.ndarray, np.ndarray]


class Examples(Protocol):
    """Numbered pairs (source ids, target ids), each side ending in EOS.

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


Batch = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """The ids that a batch needs besides those of its examples."""

    source_pad: int = 0
    target_pad: int = 0
    start: int = 2


def assemble(
    plan: BatchPlan, examples: Examples, special: SpecialIds, shard_index: int = 0, num_shards: int = 1
) -> Batch:
    """One worker's rows of a batch, as int32 arrays.

    `source` (R, S); `target` (R, T), the decoder's input, each example beginning with BOS; `labels` (R, T), each
    ending in EOS, where padding means no loss. Packed batches also have `source_segments`, `target_segments` (from 1;
    0 is padding), `source_positions` and `target_positions` (from 0 in each segment).
    """
    rows = -(-plan.shape.rows // num_shards)
    first = shard_index * rows
    batch = _empty(plan, rows, special)
    for index in np.flatnonzero((plan.rows >= first) & (plan.rows < first + rows)).tolist():
        source, target = examples[plan.examples[index]]
        row = plan.rows[index] - first
        source_at = 0 if plan.source_at is None else plan.source_at[index]
        target_at = 0 if plan.target_at is None else plan.target_at[index]
        source_end, target_end = source_at + len(source), target_at + len(target)
        batch["source"][row, source_at:source_end] = source
        batch["target"][row, target_at] = special.start
        batch["target"][row, target_at + 1 : target_end] = target[:-1]
        batch["labels"][row, target_at:target_end] = target
        if plan.segments is not None:
            batch["source_segments"][row, source_at:source_end] = plan.segments[index]
            batch["target_segments"][row, target_at:target_end] = plan.segments[index]
            batch["source_positions"][row, source_at:source_end] = np.arange(len(source))
            batch["target_positions"][row, target_at:target_end] = np.arange(len(target))
    return batch


def _empty(plan: BatchPlan, rows: int, special: SpecialIds) -> Batch:
    source, target = (rows, plan.shape.source), (rows, plan.shape.target)
    batch = {
        "source": np.full(source, special.source_pad, np.int32),
        "target": np.full(target, special.target_pad, np.int32),
        "labels": np.full(target, special.target_pad, np.int32),
    }
    if plan.segments is not None:
        for name in ("segments", "positions"):
            batch[f"source_{name}"] = np.zeros(source, np.int32)
            batch[f"target_{name}"] = np.zeros(target, np.int32)
    return batch
