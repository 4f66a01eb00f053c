"""Shards of records: what is written comes back at random, TensorFlow reads it too, and damage is named."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.data._assembly import Selection, ShardedExamples
from tf_transformer.data._records import RecordError, Shard, ShardWriter, frame_pairs, id_type, lengths_path

SOURCES = [[5, 6, 7, 3], [3], [9, 3], [40_000, 3]]
TARGETS = [[8, 3], [3], [11, 12, 13, 14, 3], [65_535, 3]]
LENGTHS = np.array([[4, 2], [1, 1], [2, 5], [2, 2]])


def write(directory, name="train-00000", dtype="<u2"):
    writer = ShardWriter(directory, name)
    writer.write(frame_pairs(SOURCES[:3], TARGETS[:3], np.dtype(dtype)), LENGTHS[:3])
    writer.write(frame_pairs(SOURCES[3:], TARGETS[3:], np.dtype(dtype)), LENGTHS[3:])
    writer.close()
    return writer.path


@pytest.mark.parametrize("dtype", ["<u2", "<i4"])
def test_pairs_come_back_in_any_order(tmp_path, dtype):
    shard = Shard(write(tmp_path, dtype=dtype), np.dtype(dtype))
    for index in (2, 0, 3, 1):
        source, target = shard[index]
        assert (source.tolist(), target.tolist()) == (SOURCES[index], TARGETS[index])


def test_tensorflow_reads_the_same_records(tmp_path):
    records = tf.data.TFRecordDataset(str(write(tmp_path)))
    ids = [tf.io.decode_raw(record, tf.uint16).numpy().tolist() for record in records]
    assert ids == [source + target for source, target in zip(SOURCES, TARGETS)]


def test_the_smallest_type_is_used():
    assert id_type(65_536) == np.uint16 and id_type(65_537) == np.int32


def test_shards_and_selections_are_numbered_through(tmp_path):
    shards = [Shard(write(tmp_path, name), "<u2") for name in ("a", "b")]
    examples = ShardedExamples(shards)
    assert len(examples) == 8 and examples.lengths.tolist() == LENGTHS.tolist() * 2
    assert [examples[i][1].tolist() for i in range(8)] == TARGETS * 2
    chosen = Selection(examples, np.array([6, 1]))
    assert chosen.lengths.tolist() == [[2, 5], [1, 1]] and chosen[0][0].tolist() == SOURCES[2]


@pytest.mark.parametrize("place", [0, 9, 13, 22])
def test_a_flipped_bit_names_file_and_record(tmp_path, place):
    path = write(tmp_path)
    second = 16 + 2 * 6
    data = bytearray(path.read_bytes())
    data[second + place % 20] ^= 4
    path.write_bytes(data)
    shard = Shard(path, "<u2")
    assert shard[0][0].tolist() == SOURCES[0]
    with pytest.raises(RecordError, match=r"train-00000\.tfrecord: record 1 \(at byte 28\) is damaged"):
        shard[1]


def test_a_cut_shard_is_named(tmp_path):
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RecordError, match=r"train-00000\.tfrecord: expected \d+ bytes"):
        Shard(path, "<u2")


def test_missing_files_are_named(tmp_path):
    path = write(tmp_path)
    path.unlink()
    with pytest.raises(RecordError, match=r"train-00000\.tfrecord"):
        Shard(path, "<u2")
    lengths_path(path).write_bytes(b"junk")
    with pytest.raises(RecordError, match=r"train-00000\.lengths\.npy"):
        Shard(path, "<u2")


def test_lengths_of_another_form_are_rejected(tmp_path):
    path = write(tmp_path)
    np.save(lengths_path(path), np.array([[1, 0]], np.int32))
    with pytest.raises(RecordError, match="int32 lengths"):
        Shard(path, "<u2")
