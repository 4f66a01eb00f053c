"""The datasets of training and validation: batches of a prepared directory as `tf.data.Dataset`s."""

import dataclasses
import functools
import logging
from typing import Literal

import tensorflow as tf

from tf_transformer.data._bucketing import BucketPlanner
from tf_transformer.data._gathering import Replicas
from tf_transformer.data._input_pipeline import Position, batch_parts, parts_per_epoch, read_parts, split_pieces
from tf_transformer.data._packing import PackPlanner
from tf_transformer.data._prepared import PreparedDataset
from tf_transformer.data._service import from_service
from tf_transformer.data._shapes import BatchShape, LengthCounts, fit_shapes, pack_shape
from tf_transformer.data._subword_dropout import SubwordDropout

logger = logging.getLogger(__name__)

_INPUTS = ("source", "target", "source_segments", "target_segments", "source_positions", "target_positions")


@dataclasses.dataclass(frozen=True)
class BatchOptions:
    """Options of batching. The names are those of `TrainingConfig`.

    Attributes:
        batch_tokens: places of a global batch on its longer side, padding included; the paper's is 25,000.
        max_length: pairs with a longer side, in tokens with EOS, are dropped.
        batching: `bucket`, one pair per row, or `pack`, as many as fit.
        max_shapes: maximum number of static shapes of `bucket`; `pack` has one.
    """

    batch_tokens: int = 25_000
    max_length: int = 256
    batching: Literal["bucket", "pack"] = "bucket"
    max_shapes: int = 48

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "max_length", "max_shapes"):
            if getattr(self, name) < 1:
                raise ValueError(f"Expected {name} to be at least 1. Received: {getattr(self, name)}.")
        if self.batching not in ("bucket", "pack"):
            raise ValueError(f"Expected batching to be 'bucket' or 'pack'. Received: {self.batching!r}.")


def training_dataset(
    prepared: PreparedDataset,
    options: BatchOptions | None = None,
    seed: int = 1,
    *,
    position: Position | None = None,
    replicas: Replicas | None = None,
    epochs: int | None = None,
    subword_dropout: float = 0.0,
    service: str | None = None,
) -> tf.data.Dataset:
    """The training batches of a prepared directory, starting at a position.

    Every pair that is not too long appears exactly once per epoch. The order of an epoch follows from (seed, epoch).
    The global batches are the same for any number of replicas and workers. Shapes are static: see `batch_shapes`.

    Args:
        prepared: the prepared directory.
        options: options of batching.
        seed: seed of the shuffling, combined with the epoch.
        position: position of an earlier element to resume from; None for the beginning.
        replicas: replicas that the dataset feeds; see `strategy.distribute_datasets_from_function`.
        epochs: number of epochs; None for an endless dataset.
        subword_dropout: probability that a piece is split into its two parts. What is split follows from (seed, epoch).
        service: address of a tf.data service that makes the batches, such as "grpc://host:5000".

    Returns:
        A dataset of dicts of int32 arrays: `source` (R, S); `target` (R, T), the decoder's input; `labels` (R, T);
        packed batches also have `source_segments`, `target_segments`, `source_positions` and `target_positions`. Empty
        places are padding and carry no loss. `position`, [3] int64, is the position after the batch. For each global
        batch there is one element for each replica.

    Example:
        dataset = training_dataset(PreparedDataset("data"), BatchOptions(batch_tokens=4096), seed=1)
        for batch in dataset:
            batch["source"], batch["target"], batch["labels"]
    """
    options, position, replicas = options or BatchOptions(), position or Position(), replicas or Replicas()
    shapes = batch_shapes(prepared, options)
    planner = _planner(shapes, options)
    reader = prepared.reader("train")
    parts = parts_per_epoch(reader)
    dataset = read_parts(reader, parts, seed, position, epochs)
    if subword_dropout:
        dropout = SubwordDropout.of(subword_dropout, prepared.tokenizers, shapes, options.max_length)
        dataset = split_pieces(dataset, dropout, seed)
    dataset = batch_parts(
        dataset, planner, prepared.special_ids, parts, seed, position, replicas, sharded=service is not None
    )
    if epochs is None:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
    return dataset if service is None else from_service(dataset, service)


def validation_dataset(
    prepared: PreparedDataset, options: BatchOptions | None = None, *, replicas: Replicas | None = None
) -> tf.data.Dataset:
    """The validation batches of a prepared directory: each pair once, always in the same order.

    Their shapes are those of training, plus one if a validation pair fits none of them. Elements are as in
    `training_dataset`; the cardinality is known.
    """
    options, replicas = options or BatchOptions(), replicas or Replicas()
    counts = _kept(prepared, "validation", options)
    planner = _planner(_with_room_for(counts, batch_shapes(prepared, options), options), options)
    reader, start = prepared.reader("validation"), Position()
    parts = read_parts(reader, 1, 0, start, epochs=1)
    plans = batch_parts(parts, planner, prepared.special_ids, 1, 0, start, replicas)
    batches = sum(1 for _ in plans) if counts.pairs.sum() else 0
    return plans.apply(tf.data.experimental.assert_cardinality(batches))


@functools.lru_cache(maxsize=8)
def batch_shapes(prepared: PreparedDataset, options: BatchOptions) -> tuple[BatchShape, ...]:
    """The static shapes of the global training batches, fitted to the lengths of the corpus."""
    counts = _kept(prepared, "train", options)
    if not counts.pairs.sum():
        raise ValueError(
            f"Expected training pairs of at most max_length={options.max_length} tokens per side in {prepared.path}. "
            "Received: none; raise max_length, or prepare more text."
        )
    return _fit(counts, options)


def planner_for(counts: LengthCounts, options: BatchOptions) -> BucketPlanner | PackPlanner:
    """The planner of batches for pairs of these lengths."""
    return _planner(_fit(counts, options), options)


def _fit(counts: LengthCounts, options: BatchOptions) -> tuple[BatchShape, ...]:
    if options.batching == "pack":
        return (pack_shape(counts, options.batch_tokens),)
    return fit_shapes(counts, options.batch_tokens, options.max_shapes)


def keras_inputs(batch: dict[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]:
    """A batch as `model.fit` takes it: (inputs, labels, weights), where padding has the weight 0.

    Example:
        model.compile(optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(training_dataset(prepared).map(keras_inputs), steps_per_epoch=1000, epochs=3)
    """
    weights = tf.cast(batch["labels"] != 0, tf.float32)
    return {name: batch[name] for name in _INPUTS if name in batch}, batch["labels"], weights


def padding_dataset(shape: BatchShape, packed: bool, replicas: Replicas) -> tf.data.Dataset:
    """Endless batches of padding of one shape, with the element specification of `training_dataset`."""

    def zeros(size: tf.Tensor) -> dict[str, tf.Tensor]:
        names = ["labels", *(_INPUTS if packed else _INPUTS[:2])]
        sizes = {name: [size[2], size[0] if name.startswith("source") else size[1]] for name in names}
        return {name: tf.zeros(sizes[name], tf.int32) for name in names} | {"position": tf.zeros([3], tf.int64)}

    sizes = tf.constant([shape.source, shape.target, replicas.rows(shape.rows)])
    return tf.data.Dataset.from_tensors(sizes).map(zeros).repeat()


def _planner(shapes: tuple[BatchShape, ...], options: BatchOptions) -> BucketPlanner | PackPlanner:
    if options.batching == "pack":
        return PackPlanner(shapes[-1], options.max_length)
    return BucketPlanner(shapes, options.max_length)


@functools.lru_cache(maxsize=8)
def _kept(prepared: PreparedDataset, split: str, options: BatchOptions) -> LengthCounts:
    """The lengths of the pairs that are not too long; the number of dropped pairs is logged."""
    counts = prepared.length_counts(split)
    kept = counts.up_to(options.max_length)
    total, dropped = counts.pairs.sum(), counts.pairs.sum() - kept.pairs.sum()
    if dropped:
        logger.info("%d of %d %s pairs are longer than %d tokens: dropped", dropped, total, split, options.max_length)
    return kept


def _with_room_for(
    counts: LengthCounts, shapes: tuple[BatchShape, ...], options: BatchOptions
) -> tuple[BatchShape, ...]:
    """The shapes, and one more if pairs of these lengths do not fit into the last."""
    source, target = (
        max([side, *counts.lengths[:, i].tolist()]) for i, side in enumerate((shapes[-1].source, shapes[-1].target))
    )
    if (source, target) == (shapes[-1].source, shapes[-1].target):
        return shapes
    return (*shapes, BatchShape.of_budget(source, target, options.batch_tokens))
