"""Shards of records: what is written comes back in the graph, and damage is named."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.data._pair_ids import PairIds, id_type
from tf_transformer.data._record_layout import RecordError, check_layout
from tf_transformer.data._records import BLOCK_PAIRS, ShardReader, ShardWriter

pytestmark = pytest.mark.long

SOURCES = [[5, 6, 7, 3], [3], [9, 3], [40_000, 3]]
TARGETS = [[8, 3], [3], [11, 12, 13, 14, 3], [65_535, 3]]


def write(directory, name="a", dtype="<u2", origin=None):
    writer = ShardWriter(directory / name, origin or f"toy/{name}")
    for pairs in PairIds.of(SOURCES, TARGETS, np.dtype(dtype)).split([3, 0, 1]):
        writer.write(pairs)
    writer.close()
    assert (writer.pairs, writer.records) == (4, 1)
    return writer.path


def reader(*paths, dtype="<u2", pairs=4, vocab_sizes=(65_536, 65_536)):
    return ShardReader(paths, [pairs] * len(paths), [f"toy/{path.name}" for path in paths], dtype, vocab_sizes)


def read(shards, *numbers):
    """The pairs as lists."""
    pairs = tf.function(shards.read)(tf.constant(numbers, tf.int64))
    ragged = [tf.RaggedTensor.from_row_splits(pairs[i], pairs[i + 1]).to_list() for i in (0, 2)]
    return list(zip(*ragged))


@pytest.mark.parametrize("dtype", ["<u2", "<i4"])
def test_pairs_come_back(tmp_path, dtype):
    assert read(reader(write(tmp_path, dtype=dtype), dtype=dtype), 0) == list(zip(SOURCES, TARGETS))


def test_shards_are_read_by_number(tmp_path):
    shards = reader(*(write(tmp_path, name) for name in "abc"))
    assert read(shards, 2, 0) == list(zip(SOURCES, TARGETS)) * 2


def test_lengths_follow_from_the_splits(tmp_path):
    source, target = reader(write(tmp_path)).read(tf.constant([0], tf.int64)).lengths()
    assert (source.numpy().tolist(), target.numpy().tolist()) == ([4, 1, 2, 2], [2, 1, 5, 2])


def test_a_record_holds_many_pairs(tmp_path):
    writer = ShardWriter(tmp_path / "many", "toy/many")
    for _ in range(3 * BLOCK_PAIRS // 4):
        writer.write(PairIds.of(SOURCES, TARGETS, np.dtype("<u2")))
    writer.close()
    assert (writer.pairs, writer.records) == (3 * BLOCK_PAIRS, 3)
    assert read(reader(writer.path, pairs=writer.pairs), 0) == list(zip(SOURCES, TARGETS)) * (writer.pairs // 4)


def test_the_smallest_type_is_used():
    assert id_type(65_536) == np.uint16 and id_type(65_537) == np.int32


def test_a_flipped_bit_or_a_truncated_file_is_an_error(tmp_path):
    path = write(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 4]) + whole[41:])
    with pytest.raises(tf.errors.DataLossError):
        read(reader(path), 0)
    path.write_bytes(whole[:-3])
    with pytest.raises(tf.errors.DataLossError):
        read(reader(path), 0)


def test_a_missing_file_is_named(tmp_path):
    path = write(tmp_path)
    path.unlink()
    with pytest.raises(tf.errors.NotFoundError, match=str(path)):
        read(reader(path), 0)


def test_records_of_another_dataset_are_named(tmp_path):
    first, second = write(tmp_path, "a"), write(tmp_path, "b", origin="other/b")
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{second}: expected records .* Received: other/b"):
        read(reader(first, second), 0, 1)


def test_a_shard_with_other_pairs_is_named(tmp_path):
    path = write(tmp_path)
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{path}: expected as many pairs .* Received: 4"):
        read(reader(path, pairs=5), 0)


@pytest.mark.parametrize(("sizes", "side"), [((40_000, 65_536), "source"), ((65_536, 65_535), "target")])
def test_ids_outside_the_vocabulary_are_named(tmp_path, sizes, side):
    path = write(tmp_path)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"{path}: expected {side} ids from 0 to {min(sizes) - 1}"
    ):
        read(reader(path, vocab_sizes=sizes), 0)


def test_negative_ids_are_named(tmp_path):
    writer = ShardWriter(tmp_path / "negative", "toy/negative")
    writer.write(PairIds.of([[5, -7, 3]], [[9, 3]], np.dtype("<i4")))
    writer.close()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"expected source ids from 0 to 65535\. Received: -7"):
        read(reader(writer.path, dtype="<i4", pairs=1), 0)


def test_lengths_that_do_not_fit_the_ids_are_named(tmp_path):
    for number, lengths in enumerate(([[3, 2]], [[4, 2]], [[-1, 2]], [[3, 0]])):
        writer = ShardWriter(tmp_path / str(number), f"toy/{number}")
        ids = PairIds.of([[5, 7, 3]], [[9, 3]], np.dtype("<u2"))
        writer.write(ids._replace(lengths=np.array(lengths, np.int32)))
        writer.close()
        if number == 0:
            assert read(reader(writer.path, pairs=1), 0) == [([5, 7, 3], [9, 3])]
            continue
        side = "target" if number == 3 else "source"
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{writer.path}: expected lengths .* the {side} ids"):
            read(reader(writer.path, pairs=1), 0)


def test_a_layout_that_tensorflow_must_not_read_is_named(tmp_path):
    whole = write(tmp_path).read_bytes()
    place = whole.index(b"target") + len(b"target")
    huge = whole[:place] + whole[place : place + 5] + b"\xff\xff\xff\xff\x0f" + whole[place + 10 :]
    cases = {
        "whole": whole,
        "no records": b"",
        "a length beyond the file": (2**40).to_bytes(8, "little") + whole[8:],
        "truncated": whole[:-5],
        "a value beyond the record": huge,
        "another feature": whole.replace(b"target", b"tarjet"),
        "half an id": whole.replace(b"\x0a\x06source\x12", b"\x0a\x06source\x0a"),
    }
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        if name == "whole":
            check_layout(tmp_path / name, len(content), 2)
            continue
        with pytest.raises(RecordError, match=rf"{tmp_path / name}: expected records .* --overwrite"):
            check_layout(tmp_path / name, len(content), 2)
    with pytest.raises(RecordError, match="bytes of"):
        check_layout(tmp_path / "whole", len(whole), 4)
