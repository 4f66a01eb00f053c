"""The input pipeline: `tf.data` from shards of records to the batches of each replica.

An epoch is cut into parts. A part is read completely, shuffled and planned into batches; then its batches are gathered
one by one. Everything random follows from (seed, epoch, part), so a position (epoch, part, batch) restores to the very
next batch by reading one part, whatever came before it. No step calls Python: the dataset can be serialised, and run by
the tf.data service.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_transformer.data.assembly import SpecialIds
from tf_transformer.data.blocks import Pairs, ShardReader
from tf_transformer.data.bucket_plan import BucketPlanner, random_order
from tf_transformer.data.gathering import Plan, gather_rows
from tf_transformer.data.pack_plan import PackPlanner

PART_PAIRS = 262_144
"""Pairs of a part, about: enough that 48 shapes at 25,000 tokens leave few batches unfilled, and 50 MB."""
_FOREVER = np.iinfo(np.int64).max


class Position(NamedTuple):
    """A place in the endless sequence of training batches: before batch `batch` of part `part` of an epoch."""

    epoch: int = 0
    part: int = 0
    batch: int = 0


@dataclasses.dataclass(frozen=True)
class Replicas:
    """The replicas that a dataset feeds, among all that share a global batch.

    Attributes:
        total: over all workers.
        first, count: those of this dataset.
        accumulation_steps: micro-batches of each replica; its rows are a multiple of it.
    """

    total: int = 1
    first: int = 0
    count: int = 1
    accumulation_steps: int = 1

    @classmethod
    def of(cls, context: tf.distribute.InputContext, accumulation_steps: int = 1) -> "Replicas":
        """Those of an input pipeline of `strategy.distribute_datasets_from_function`."""
        count = context.num_replicas_in_sync // context.num_input_pipelines
        return cls(context.num_replicas_in_sync, context.input_pipeline_id * count, count, accumulation_steps)


class Part(NamedTuple):
    """A part of an epoch in tensors: its place, its pairs, and once it is planned its batches."""

    epoch: tf.Tensor
    number: tf.Tensor
    pairs: Pairs
    plan: Plan | tuple = ()


def read_parts(
    reader: ShardReader, shards: int, parts_per_epoch: int, seed: int, position: Position, epochs: int | None = None
) -> tf.data.Dataset:
    """The parts of all epochs from a position on, each the pairs of some shards, in an order of (seed, epoch)."""

    def read(number: tf.Tensor) -> Part:
        epoch, part = number // parts_per_epoch, number % parts_per_epoch
        order = tf.argsort(random_order(shards, part_seed(seed, epoch, tf.constant(-1, tf.int64))))
        bounds = tf.stack([part, part + 1]) * shards // parts_per_epoch
        return Part(epoch, part, reader.read(tf.cast(order[bounds[0] : bounds[1]], tf.int64)))

    end = _FOREVER if epochs is None else epochs * parts_per_epoch
    return tf.data.Dataset.range(position.epoch * parts_per_epoch + position.part, end).map(read)


def batch_parts(
    parts: tf.data.Dataset,
    planner: BucketPlanner | PackPlanner,
    special: SpecialIds,
    seed: int,
    parts_per_epoch: int,
    position: Position,
    replicas: Replicas,
) -> tf.data.Dataset:
    """The batches of parts: for each global batch one element for each replica of `replicas`, one after another.

    Elements are those of `gather_rows` and `position`, [3] int64, the position after their batch.
    """

    def plan(part: Part) -> Part:
        seed_of_part = part_seed(seed, part.epoch, part.number)
        return part._replace(plan=planner.plan(*part.pairs.lengths(), seed_of_part))

    def number(part: Part) -> tf.data.Dataset:
        resumed = tf.logical_and(part.epoch == position.epoch, part.number == position.part)
        first = tf.where(resumed, tf.constant(position.batch, tf.int64), 0)
        numbers = tf.data.Dataset.range(first * replicas.count, tf.size(part.plan.num_rows, tf.int64) * replicas.count)
        return numbers.map(lambda number: (part, number))

    def gather(part: Part, number: tf.Tensor) -> dict[str, tf.Tensor]:
        batch, share = number // replicas.count, replicas.first + number % replicas.count
        rows = gather_rows(
            part.pairs, part.plan, batch, share, replicas.total, replicas.accumulation_steps, special, planner.packed
        )
        return rows | {"position": _after(part, batch, parts_per_epoch)}

    # The order of the steps: whole parts are planned, because batches with little padding need many lengths to choose
    # from; one part is read and planned while the one before it is in use. Batches are then numbered, which costs
    # nothing to skip when a run resumes. Last, and in parallel, comes the one step that touches each token of a batch.
    return (
        parts.map(plan)
        .prefetch(1)
        .flat_map(number)
        .map(gather, tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )  # fmt: skip


def part_seed(seed: int, epoch: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    """The seed, [2] int64, of what is random in a part."""
    return tf.cast(tf.random.fold_in(tf.stack([tf.constant(seed, tf.int64), epoch]), part), tf.int64)


def _after(part: Part, batch: tf.Tensor, parts_per_epoch: int) -> tf.Tensor:
    """The position after a batch: where it was the last of its part, the beginning of the next."""
    last_batch = tf.cast(batch + 1 == tf.size(part.plan.num_rows, tf.int64), tf.int64)
    number = part.number + last_batch
    last_part = tf.cast(number == parts_per_epoch, tf.int64)
    return tf.stack([part.epoch + last_part, number * (1 - last_part), (batch + 1) * (1 - last_batch)])
