"""The input pipeline: `tf.data` from shards of records to the batches of each replica.

An epoch is divided into parts. A part is read completely, shuffled and planned into batches; then its batches are
gathered one by one. Everything random follows from (seed, epoch, part), so a run resumes at a position (epoch, part,
batch) by reading one part. No step calls Python: the dataset can be serialized, and run by the tf.data service.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_transformer.data._bucketing import BucketPlanner, random_order
from tf_transformer.data._gathering import Plan, Replicas, SpecialIds, gather_rows
from tf_transformer.data._packing import PackPlanner
from tf_transformer.data._records import Pairs, ShardReader
from tf_transformer.data._subword_dropout import SubwordDropout

PART_PAIRS = 262_144
"""Approximate pairs per part: enough that 48 shapes of 25,000 tokens leave few rows empty. They take 50 MB."""
_FOREVER = np.iinfo(np.int64).max
# Graph code as it stands: nothing here needs AutoGraph, and without it a dataset is made in half the time.
_plain = tf.autograph.experimental.do_not_convert


class Position(NamedTuple):
    """A place in the endless sequence of training batches: before batch `batch` of part `part` of an epoch."""

    epoch: int = 0
    part: int = 0
    batch: int = 0

    @classmethod
    def of(cls, values: Mapping[str, int]) -> "Position":
        """The position that a checkpoint holds."""
        if set(values) != set(cls._fields):
            raise ValueError(
                f"Expected a position with {', '.join(cls._fields)}. Received: {dict(values)}, of an older "
                "version. Start a new run."
            )
        return cls(**{name: int(values[name]) for name in cls._fields})


class Part(NamedTuple):
    """A part of an epoch in tensors: its place, its pairs, and once it is planned its batches."""

    epoch: tf.Tensor
    number: tf.Tensor
    pairs: Pairs
    plan: Plan = ()  # type: ignore[assignment]  # an empty structure until it is planned


def parts_per_epoch(reader: ShardReader, part_pairs: int = PART_PAIRS) -> int:
    """Number of parts per epoch, of about `part_pairs` pairs and at least one shard each."""
    return min(len(reader.pairs), max(1, round(sum(reader.pairs) / part_pairs)))


def read_parts(
    reader: ShardReader, parts: int, seed: int, position: Position, epochs: int | None = None
) -> tf.data.Dataset:
    """The parts of all epochs from a position on, `parts` of them in each, in an order that follows from (seed, epoch).

    Pairs were dealt to the shards at random when they were written, so that any of them are a fair sample of the
    corpus. `epochs` is the number of the epoch before which the dataset ends; None for never.
    """
    shards = len(reader.pairs)

    @_plain
    def read(number: tf.Tensor) -> Part:
        epoch, part = number // parts, number % parts
        order = tf.argsort(random_order(shards, _seed(seed, epoch, tf.constant(-1, tf.int64))))
        bounds = tf.stack([part, part + 1]) * shards // parts
        return Part(epoch, part, reader.read(tf.cast(order[bounds[0] : bounds[1]], tf.int64)))

    end = _FOREVER if epochs is None else epochs * parts
    return tf.data.Dataset.range(position.epoch * parts + position.part, end).map(read)


def split_pieces(dataset: tf.data.Dataset, dropout: SubwordDropout, seed: int) -> tf.data.Dataset:
    """A dataset of parts with pieces split at random; what is split follows from (seed, epoch, part)."""

    @_plain
    def split(part: Part) -> Part:
        return part._replace(pairs=dropout.apply(part.pairs, _seed(seed, part.epoch, part.number)))

    return dataset.map(split)


def batch_parts(
    dataset: tf.data.Dataset,
    planner: BucketPlanner | PackPlanner,
    special: SpecialIds,
    parts: int,
    seed: int,
    position: Position,
    replicas: Replicas,
    sharded: bool = False,
) -> tf.data.Dataset:
    """The batches of a dataset of parts: for each global batch one element for each replica of `replicas`.

    Args:
        dataset: what `read_parts` gives.
        planner: of batches.
        special: ids of padding and BOS.
        parts: of an epoch.
        seed: of the shuffling.
        position: of the first batch, in the first part of `dataset`.
        replicas: that the dataset feeds.
        sharded: for the tf.data service: its workers share the elements, which are numbered.

    Returns:
        Elements of `gather_rows` with `position`, [3] int64, the position after their batch; if `sharded`, tuples of
        the element's number and that.
    """

    @_plain
    def plan(part: Part) -> Part:
        return part._replace(plan=planner.plan(*part.pairs.lengths(), _seed(seed, part.epoch, part.number)))

    @_plain
    def number(part: Part) -> tf.data.Dataset:
        resumed = tf.logical_and(part.epoch == position.epoch, part.number == position.part)
        first = tf.where(resumed, tf.constant(position.batch, tf.int64), 0)
        numbers = tf.data.Dataset.range(first * replicas.count, tf.size(part.plan.num_rows, tf.int64) * replicas.count)
        return numbers.map(_plain(lambda number: (part, number)))

    @_plain
    def gather(part: Part, number: tf.Tensor) -> dict[str, tf.Tensor]:
        batch, share = number // replicas.count, replicas.first + number % replicas.count
        rows = gather_rows(part.pairs, part.plan, batch, share, replicas, special, planner.packed)
        return rows | {"position": _after(part, batch, parts)}

    # The order of the steps. Whole parts are planned, because batches with little padding need many lengths to choose
    # from; one is planned while the part before is in use, on one thread. Batches are then
    # numbered, which costs nothing to skip when a run resumes, and which is where the workers of a tf.data service
    # share them. Last, and in parallel, comes the only step that touches every token of a batch, for the rows of one
    # replica.
    dataset = dataset.map(plan).prefetch(1).flat_map(number)
    if sharded:
        hint = tf.data.experimental.SHARD_HINT
        dataset = dataset.enumerate().shard(hint, hint)
        dataset = dataset.map(_plain(lambda count, item: (count, gather(*item))), tf.data.AUTOTUNE)
    else:
        dataset = dataset.map(gather, tf.data.AUTOTUNE)
    return dataset.prefetch(2).with_options(_options())


def _seed(seed: int, epoch: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    """The seed, [2] int64, of what is random in a part."""
    return tf.cast(tf.random.fold_in(tf.stack([tf.constant(seed, tf.int64), epoch]), part), tf.int64)


def _after(part: Part, batch: tf.Tensor, parts: int) -> tf.Tensor:
    """The position after a batch: where it was the last of its part, the beginning of the next part."""
    last_batch = tf.cast(batch + 1 == tf.size(part.plan.num_rows, tf.int64), tf.int64)
    number = part.number + last_batch
    last_part = tf.cast(number == parts, tf.int64)
    return tf.stack([part.epoch + last_part, number * (1 - last_part), (batch + 1) * (1 - last_batch)])


def _options() -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = True
    # Or TensorFlow would make every map parallel, and read as many parts at a time as there are cores.
    options.experimental_optimization.map_parallelization = False
    # Or deleting an iterator could take a minute: see `DistributedBatches`. AUTOTUNE is then one call per core.
    options.autotune.enabled = False
    return options
