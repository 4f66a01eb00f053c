"""Records of ids: TFRecord shards whose records hold a block of many pairs.

A record is a `tf.train.Example` of four bytes features: `source` and `target`, the ids of its pairs one after another
as little-endian integers, each sentence ending in EOS; `lengths`, int32 (source, target) of each pair; and `origin`,
the dataset and shard that the record belongs to. A record holds many pairs because reading, checking and parsing one
costs the same for one pair as for a thousand.
"""

import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_transformer.data._pair_ids import PairIds
from tf_transformer.data._record_layout import FEATURES as _FEATURES

BLOCK_PAIRS = 1024
_ALL = np.iinfo(np.int64).max


def failed_assertion(error: tf.errors.OpError) -> str | None:
    """Extract the message of a failed assertion from a TensorFlow error; None for other errors."""
    found = re.search(r"assertion failed: \[(.*?)\]", error.message, flags=re.DOTALL)
    return found[1] if found else None


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
    """Writer of the records of one shard.

    Args:
        path: path of the file.
        origin: origin stored in its records.
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
        source, target, lengths = (np.concatenate(column) for column in zip(*self._waiting))
        values = source.tobytes(), target.tobytes(), lengths.astype("<i4").tobytes(), self._origin
        features = {
            name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
            for name, value in zip(_FEATURES, values)
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        # Otherwise the order of the features differs from process to process, and with it the hash of the shard.
        self._file.write(example.SerializeToString(deterministic=True))
        self.pairs += self._waiting_pairs
        self.records += 1
        self._waiting, self._waiting_pairs = [], 0


class ShardReader:
    """Reader of complete shards, in the graph.

    Args:
        paths: paths of the shards.
        pairs: number of pairs per shard, from `dataset.json`.
        origins: origin in the records of each shard.
        id_type: type of the ids in the records.
        vocab_sizes: vocabulary sizes of source and target; other ids are an error.
    """

    def __init__(
        self,
        paths: Sequence[pathlib.Path],
        pairs: Sequence[int],
        origins: Sequence[str],
        id_type: str,
        vocab_sizes: tuple[int, int],
    ):
        self.pairs = tuple(pairs)
        self._paths, self._origins = [str(path) for path in paths], list(origins)
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

    @tf.autograph.experimental.do_not_convert
    def _records(self, shard: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(tf.gather(self._paths, shard))
        return tf.data.Dataset.zip(tf.data.Dataset.from_tensors(shard).repeat(), records)

    def _decode(self, parsed: dict[str, tf.Tensor]) -> Pairs:
        source, target, lengths = (tf.strings.reduce_join(parsed[name]) for name in _FEATURES[:3])
        lengths = tf.reshape(tf.io.decode_raw(lengths, tf.int32), [-1, 2])
        splits = tf.pad(tf.cumsum(tf.cast(lengths, tf.int64)), [[1, 0], [0, 0]])
        source, target = (tf.io.decode_raw(side, self._id_type) for side in (source, target))
        return Pairs(source, splits[:, 0], target, splits[:, 1])

    def _checks(
        self, shards: tf.Tensor, shard_of: tf.Tensor, parsed: dict[str, tf.Tensor], pairs: Pairs
    ) -> list[tf.Operation]:
        """Assertions that these are the records `dataset.json` describes. Their messages name the file."""
        in_records = tf.cast(tf.strings.length(parsed["lengths"]) // 8, tf.int64)
        counts = tf.gather(tf.math.unsorted_segment_sum(in_records, shard_of, len(self._paths)), shards)
        return [
            self._check(
                shard_of,
                parsed["origin"] != tf.gather(self._origins, shard_of),
                "expected records of the dataset and shard that dataset.json names",
                # TensorFlow raises a UnicodeDecodeError for a message that is not UTF-8.
                tf.strings.unicode_transcode(tf.strings.substr(parsed["origin"], 0, 100), "UTF-8", "UTF-8"),
            ),
            self._check(
                shards,
                counts != tf.gather(tf.constant(self.pairs, tf.int64), shards),
                "expected as many pairs as in dataset.json",
                tf.as_string(counts),
            ),
            self._check_lengths(shard_of, parsed["source"], pairs.source_splits, in_records, "source"),
            self._check_lengths(shard_of, parsed["target"], pairs.target_splits, in_records, "target"),
            self._check_ids(shard_of, parsed["source"], pairs.source, self._vocab_sizes[0], "source"),
            self._check_ids(shard_of, parsed["target"], pairs.target, self._vocab_sizes[1], "target"),
        ]

    def _check_lengths(
        self, shard_of: tf.Tensor, records: tf.Tensor, splits: tf.Tensor, in_records: tf.Tensor, side: str
    ) -> tf.Operation:
        """Assert that the lengths of the sentences of each record are positive and add up to its ids."""
        ends = tf.cumsum(in_records)
        total = tf.gather(splits, ends) - tf.gather(splits, ends - in_records)
        shortest = tf.math.unsorted_segment_min(
            splits[1:] - splits[:-1], tf.repeat(tf.range(tf.size(in_records)), in_records), tf.size(in_records)
        )
        bytes_of_ids = tf.cast(tf.strings.length(records), tf.int64)
        wrong = tf.logical_or(total * self._id_type.size != bytes_of_ids, shortest < 1)
        return self._check(
            shard_of, wrong, f"expected lengths from 1 that add up to the {side} ids of a record", tf.as_string(total)
        )

    def _check_ids(
        self, shard_of: tf.Tensor, records: tf.Tensor, ids: tf.Tensor, vocab_size: int, side: str
    ) -> tf.Operation:
        # Negative ids are the largest of all where their bytes are read without a sign.
        unsigned = ids if self._id_type.is_unsigned else tf.bitcast(ids, tf.uint32)
        largest = tf.argmax(unsigned)
        ends = tf.cumsum(tf.cast(tf.strings.length(records) // self._id_type.size, tf.int64))
        shard = tf.gather(shard_of, tf.searchsorted(ends, [largest], side="right"))
        ids = tf.cast(ids[largest], tf.int64)[None]
        outside = tf.logical_or(ids < 0, ids >= vocab_size)
        return self._check(shard, outside, f"expected {side} ids from 0 to {vocab_size - 1}", tf.as_string(ids))

    def _check(self, shards: tf.Tensor, wrong: tf.Tensor, expected: str, received: tf.Tensor) -> tf.Operation:
        """Assert that `wrong` is false for all shards; the message names the first for which it is true."""
        first = tf.argmax(tf.cast(wrong, tf.int32))
        message = [tf.gather(self._paths, shards[first]), f": {expected}. Received: ", received[first]]
        return tf.debugging.Assert(tf.logical_not(tf.reduce_any(wrong)), [tf.strings.join(message)])
