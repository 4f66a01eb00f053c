"""Batches for training: a token budget, static shapes, and a position that restores to the very next batch.

An epoch is planned from (seed, epoch) alone, with the lengths and before any record is read: see `Buckets` and
`Packing`. A position is therefore two numbers, and it means the same batch under any number of replicas.
"""

import dataclasses
import logging
from collections.abc import Iterator
from typing import Literal

import numpy as np

from tf_transformer.data._assembly import Batch, EncodedLines, Examples, Selection, assemble
from tf_transformer.data._planning import Buckets, EpochPlan, Packing
from tf_transformer.data._prefetching import prefetch
from tf_transformer.data._prepared import PreparedDataset
from tf_transformer.data._shapes import BatchShape

logger = logging.getLogger(__name__)

Position = dict[str, int]


@dataclasses.dataclass(frozen=True)
class BatchOptions:
    """How batches are made. The names are those of `TrainingConfig`.

    Attributes:
        batch_tokens: places of a global batch on its longer side, padding included; the paper's is 25,000.
        max_length: pairs with a longer side, in tokens with EOS, are left out.
        batching: `bucket`, one pair a row, or `pack`, as many as fit.
        max_shapes: of `bucket`, how many static shapes at most; `pack` has one.
        prefetch: batches that a thread makes ahead; 0 for none.
    """

    batch_tokens: int = 25_000
    max_length: int = 256
    batching: Literal["bucket", "pack"] = "bucket"
    max_shapes: int = 48
    prefetch: int = 8

    def __post_init__(self):
        for name in ("batch_tokens", "max_length", "max_shapes"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} to be at least 1, got {getattr(self, name)}")
        if self.batching not in ("bucket", "pack"):
            raise ValueError(f"expected batching to be 'bucket' or 'pack', got {self.batching!r}")


class BatchStream:
    """The endless stream of training batches of a prepared directory, and its validation batches.

    Every pair that is not too long appears exactly once an epoch; where the last rows of a batch have none, they are
    all padding and carry no loss.

    Args:
        prepared: the prepared directory.
        options: how batches are made.
        seed: what the shuffling depends on, besides the epoch.

    Example:
        stream = BatchStream(PreparedDataset("data"), BatchOptions(batch_tokens=4096), seed=1)
        for batch, position in stream.batches():
            batch["source"], batch["target"], batch["labels"]  # (R, S), (R, T), (R, T) int32
    """

    def __init__(self, prepared: PreparedDataset, options: BatchOptions | None = None, seed: int = 1):
        self.prepared = prepared
        self.options = options or BatchOptions()
        self.seed = seed
        self._examples = self._short_enough(prepared.examples, "training")
        if not len(self._examples):
            raise ValueError(
                f"{prepared.path} has no training pair of at most max_length={self.options.max_length} tokens a side; "
                "raise max_length, or prepare more text"
            )
        self._planner = self._make_planner(self._examples)
        self._planned: tuple[int, EpochPlan] | None = None

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """The static shapes of all training batches."""
        return self._planner.shapes

    @property
    def start(self) -> Position:
        """The position of the first batch of all."""
        return {"epoch": 0, "batch": 0}

    def batches_per_epoch(self, epoch: int = 0) -> int:
        return len(self._plan(epoch))

    def padding(self, epoch: int = 0) -> float:
        """The share of padding in an epoch: of all places of source and target, empty rows included."""
        return self._plan(epoch).padding(self._examples.lengths)

    def batches(
        self, position: Position | None = None, shard_index: int = 0, num_shards: int = 1
    ) -> Iterator[tuple[Batch, Position]]:
        """Batches from `position` on, for ever, each with the position after it.

        Args:
            position: what an earlier batch came with; None for the beginning.
            shard_index, num_shards: this worker's slice of the rows of each global batch, which is the same for any
                number of workers. Rows are padded to a multiple of it.
        """
        _check_shard(shard_index, num_shards)
        return prefetch(self._batches(position or self.start, shard_index, num_shards), self.options.prefetch)

    def validation_batches(
        self, shard_index: int = 0, num_shards: int = 1, max_pairs: int | None = None
    ) -> Iterator[Batch]:
        """The validation set once, in an order that never changes, in the shapes of training where it fits them."""
        _check_shard(shard_index, num_shards)
        sources, targets = self.prepared.lines("validation")
        examples = EncodedLines(self.prepared.tokenizers, sources[:max_pairs], targets[:max_pairs])
        examples = self._short_enough(examples, "validation")
        plan = self._validation_planner(examples).plan(np.random.default_rng(0))
        for index in range(len(plan)):
            yield assemble(plan[index], examples, self.prepared.special_ids, shard_index, num_shards)

    def _batches(self, position: Position, shard_index: int, num_shards: int) -> Iterator[tuple[Batch, Position]]:
        epoch, index = int(position["epoch"]), int(position["batch"])
        while True:
            plan = self._plan(epoch)
            while index < len(plan):
                batch = assemble(plan[index], self._examples, self.prepared.special_ids, shard_index, num_shards)
                index += 1
                yield batch, {"epoch": epoch, "batch": index}
            epoch, index = epoch + 1, 0

    def _plan(self, epoch: int) -> EpochPlan:
        planned = self._planned
        if planned is None or planned[0] != epoch:
            planned = epoch, self._planner.plan(np.random.default_rng([self.seed, epoch]))
            self._planned = planned
        return planned[1]

    def _make_planner(self, examples: Examples) -> Buckets | Packing:
        if self.options.batching == "pack":
            return Packing(examples.lengths, self.options.batch_tokens)
        return Buckets(examples.lengths, self.options.batch_tokens, self.options.max_shapes)

    def _validation_planner(self, examples: Examples) -> Buckets | Packing:
        """The planner of training's shapes; one more shape where a validation pair is longer than all of training."""
        longest = np.concatenate([examples.lengths, np.ones((1, 2), np.int32)]).max(0)
        largest = self.shapes[-1]
        extra = BatchShape.of_budget(
            max(largest.source, longest[0]), max(largest.target, longest[1]), self.options.batch_tokens
        )
        if self.options.batching == "pack":
            fits = extra.source == largest.source and extra.target == largest.target
            return Packing(examples.lengths, self.options.batch_tokens, largest if fits else extra)
        shapes = tuple(sorted({*self.shapes, extra}))
        return Buckets(examples.lengths, self.options.batch_tokens, shapes=shapes)

    def _short_enough(self, examples: Examples, what: str) -> Examples:
        keep = np.flatnonzero((examples.lengths <= self.options.max_length).all(1))
        if len(keep) == len(examples):
            return examples
        dropped = len(examples) - len(keep)
        logger.info("%d of %d %s pairs are longer than %d tokens: left out", dropped, len(examples), what,
                    self.options.max_length)  # fmt: skip
        return Selection(examples, keep)


def _check_shard(shard_index: int, num_shards: int) -> None:
    if not 0 <= shard_index < num_shards:
        raise ValueError(f"expected shard_index from 0 to num_shards - 1, got {shard_index} of {num_shards}")
