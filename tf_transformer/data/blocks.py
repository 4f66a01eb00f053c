"""Training records: TFRecord shards whose records hold a block of many pairs of ids.

A record is a `tf.train.Example` of four bytes features: `source` and `target`, the ids of its pairs one after another as
little-endian integers; `lengths`, int32 (source, target) of each pair; and `origin`, which dataset and shard the record
belongs to. A record holds many pairs because reading, checking and parsing one costs the same for a pair as for a
thousand. Pairs are dealt to the shards at random, so that every shard is a fair sample of the corpus.
"""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

BLOCK_PAIRS = 1024
_FEATURES = ("source", "target", "lengths", "origin")
_ALL = np.iinfo(np.int64).max


class RecordError(ValueError):
    """A shard of records that is damaged, missing or not the one that `dataset.json` describes."""


class PairIds(NamedTuple):
    """Pairs of ids in NumPy arrays.

    Attributes:
        source, target: ids of all sentences, one after another.
        lengths: of source and target, [pairs, 2].
    """

    source: np.ndarray
    target: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, sources: Sequence[list[int]], targets: Sequence[list[int]], dtype: np.dtype) -> "PairIds":
        """The pairs of two lists of sentences."""
        flat = [np.array([i for ids in side for i in ids], dtype) for side in (sources, targets)]
        lengths = np.array([(len(s), len(t)) for s, t in zip(sources, targets, strict=True)], np.int32)
        return cls(*flat, lengths.reshape(-1, 2))

    def split(self, counts: Sequence[int]) -> list["PairIds"]:
        """Consecutive pairs, so many in each."""
        ends = np.cumsum(counts)
        tokens = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(self.lengths, 0, np.int64)])[ends]
        sides = [np.split(side, tokens[:-1, i]) for i, side in enumerate((self.source, self.target))]
        return [PairIds(*part) for part in zip(*sides, np.split(self.lengths, ends[:-1]))]


class Pairs(NamedTuple):
    """Pairs of ids in tensors, as two ragged arrays: source i is `source[source_splits[i]:source_splits[i + 1]]`.

    Attributes:
        source, target: ids of all sentences, one after another; uint16 or int32.
        source_splits, target_splits: [pairs + 1] int64.
    """

    source: tf.Tensor
    source_splits: tf.Tensor
    target: tf.Tensor
    target_splits: tf.Tensor

    def lengths(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Source and target lengths, each [pairs] int64."""
        return tuple(splits[1:] - splits[:-1] for splits in (self.source_splits, self.target_splits))


class ShardWriter:
    """Writes the blocks of one shard.

    Args:
        path: of the file.
        origin: what its records carry.
    """

    def __init__(self, path: pathlib.Path, origin: str):
        self.path, self._origin = path, origin.encode()
        self._file = tf.io.TFRecordWriter(str(path))
        self._waiting: list[PairIds] = []
        self._waiting_pairs = 0
        self.pairs = self.records = 0

    def write(self, pairs: PairIds) -> None:
        self._waiting.append(pairs)
        self._waiting_pairs += len(pairs.lengths)
        if self._waiting_pairs >= BLOCK_PAIRS:
            self._flush()

    def close(self) -> None:
        if self._waiting_pairs:
            self._flush()
        self._file.close()

    def _flush(self) -> None:
        columns = [np.concatenate(column) for column in zip(*self._waiting)]
        data = [columns[0].tobytes(), columns[1].tobytes(), columns[2].astype("<i4").tobytes(), self._origin]
        features = {
            name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value])) for name, value in zip(_FEATURES, data)
        }
        self._file.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
        self.pairs += self._waiting_pairs
        self.records += 1
        self._waiting, self._waiting_pairs = [], 0


class ShardReader:
    """Reads whole shards, in the graph.

    Args:
        paths: of the shards.
        pairs: in each of them, as `dataset.json` says.
        origins: what the records of each carry.
        id_type: of the ids in the records.
        vocab_sizes: of source and target; an id that is not below is an error.
    """

    def __init__(
        self,
        paths: Sequence[pathlib.Path],
        pairs: Sequence[int],
        origins: Sequence[str],
        id_type: str,
        vocab_sizes: tuple[int, int],
    ):
        self._paths, self._pairs, self._origins = [str(path) for path in paths], list(pairs), list(origins)
        self._id_type = tf.as_dtype(np.dtype(id_type))
        self._vocab_sizes = vocab_sizes

    def read(self, shards: tf.Tensor) -> Pairs:
        """The pairs of some shards, [n] int64, in an order that is always the same."""
        shard_of, records = (
            tf.data.Dataset.from_tensor_slices(shards)
            .interleave(self._records, cycle_length=8, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
            .batch(_ALL)
            .get_single_element()
        )
        parsed = tf.io.parse_example(records, {name: tf.io.FixedLenFeature([], tf.string) for name in _FEATURES})
        pairs = self._decode(parsed)
        with tf.control_dependencies(self._checks(shards, shard_of, parsed, pairs)):
            return Pairs(*(tf.identity(x) for x in pairs))

    def _records(self, shard: tf.Tensor) -> tf.data.Dataset:
        return tf.data.TFRecordDataset(tf.gather(self._paths, shard)).map(lambda record: (shard, record))

    def _decode(self, parsed: dict[str, tf.Tensor]) -> Pairs:
        source, target, lengths = (tf.strings.reduce_join(parsed[name]) for name in _FEATURES[:3])
        lengths = tf.reshape(tf.io.decode_raw(lengths, tf.int32), [-1, 2])
        splits = tf.pad(tf.cumsum(tf.cast(lengths, tf.int64)), [[1, 0], [0, 0]])
        source, target = (tf.io.decode_raw(side, self._id_type) for side in (source, target))
        return Pairs(source, splits[:, 0], target, splits[:, 1])

    def _checks(self, shards, shard_of, parsed, pairs: Pairs) -> list[tf.Operation]:
        """Assertions that these are the records `dataset.json` describes; what they say names the file."""
        wrong = parsed["origin"] != tf.gather(self._origins, shard_of)
        counts = tf.math.unsorted_segment_sum(
            tf.cast(tf.strings.length(parsed["lengths"]) // 8, tf.int64), shard_of, len(self._paths)
        )
        missing = tf.gather(counts, shards) != tf.gather(tf.constant(self._pairs, tf.int64), shards)
        checks = [
            self._check(shard_of, wrong, "expected records of the dataset and shard in dataset.json"),
            self._check(shards, missing, "expected as many pairs as in dataset.json"),
        ]
        for name, size in zip(("source", "target"), self._vocab_sizes):
            ids = getattr(pairs, name)
            ends = tf.cumsum(tf.cast(tf.strings.length(parsed[name]) // self._id_type.size, tf.int64))
            # An id of four bytes may be negative; the same bytes without a sign are then the largest.
            largest = tf.argmax(tf.bitcast(ids, _UNSIGNED[self._id_type]) if self._id_type == tf.int32 else ids)
            record = tf.searchsorted(ends, [largest], side="right")[0]
            outside = tf.logical_or(tf.cast(ids[largest], tf.int32) < 0, tf.cast(ids[largest], tf.int32) >= size)
            checks.append(self._check(shard_of[record][None], outside[None], f"expected {name} ids below {size}"))
        return checks

    def _check(self, shards: tf.Tensor, wrong: tf.Tensor, expected: str) -> tf.Operation:
        """Fails where `wrong` is true for any of the shards, and names the first of these."""
        first = tf.gather(self._paths, tf.gather(shards, tf.argmax(tf.cast(wrong, tf.int32))))
        return tf.debugging.Assert(tf.logical_not(tf.reduce_any(wrong)), [tf.strings.join([first, ": ", expected])])
