"""Records of ids: TFRecord shards that are written once and read at random.

A record is the source's ids and then the target's, each ending in EOS, as little-endian integers. The framing is
TensorFlow's (length, checksum, bytes, checksum), so `tf.data.TFRecordDataset` reads the shards too. Beside each shard
lies an array of lengths, from which the place of every record follows: an epoch is planned without reading one.
"""

import pathlib
import struct
from collections.abc import Sequence

import google_crc32c
import numpy as np

FRAME_BYTES = 16
_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")


class RecordError(ValueError):
    """A shard of records that is damaged or missing, and which."""


def id_type(vocab_size: int) -> np.dtype:
    """The smallest type that holds the ids of a vocabulary: two bytes instead of four for the usual sizes."""
    return np.dtype("<u2" if vocab_size <= 2**16 else "<i4")


def frame(payload: bytes) -> bytes:
    """The bytes of one TFRecord."""
    length = struct.pack("<Q", len(payload))
    return _HEADER.pack(len(payload), _masked_crc(length)) + payload + _CHECKSUM.pack(_masked_crc(payload))


def frame_pairs(sources: Sequence[list[int]], targets: Sequence[list[int]], dtype: np.dtype) -> bytes:
    """The records of many pairs of ids, one after another."""
    return b"".join(
        frame(np.array(source + target, dtype).tobytes()) for source, target in zip(sources, targets, strict=True)
    )


class ShardWriter:
    """Writes one shard and its array of lengths: `NAME.tfrecord` and `NAME.lengths.npy`."""

    def __init__(self, directory: pathlib.Path, name: str):
        self.path = directory / f"{name}.tfrecord"
        self._lengths_path = lengths_path(self.path)
        self._file = self.path.open("wb")
        self._lengths: list[np.ndarray] = []
        self.pairs = 0

    def write(self, records: bytes, lengths: np.ndarray) -> None:
        """Appends records that `frame_pairs` made, with their lengths [n, 2]."""
        self._file.write(records)
        self._lengths.append(lengths.astype(np.int32))
        self.pairs += len(lengths)

    def close(self) -> None:
        self._file.close()
        np.save(self._lengths_path, np.concatenate([np.zeros((0, 2), np.int32), *self._lengths]))


class Shard:
    """One shard, read at random: `shard[i]` is the pair (source ids, target ids) of record i.

    Args:
        path: the `.tfrecord`; its lengths lie beside it.
        dtype: of the ids in it.

    Raises:
        RecordError: naming the file, and the record where it is one, if anything does not fit together.
    """

    def __init__(self, path: pathlib.Path, dtype: np.dtype):
        self.path, self._dtype = path, np.dtype(dtype)
        self.lengths = _read_lengths(lengths_path(path))
        sizes = FRAME_BYTES + self.lengths.sum(1, dtype=np.int64) * self._dtype.itemsize
        self._offsets = np.concatenate([[0], np.cumsum(sizes)])
        self._bytes = self._map(int(self._offsets[-1]))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        start, end = int(self._offsets[index]), int(self._offsets[index + 1])
        record = self._bytes[start:end].tobytes()
        payload = record[12:-4]
        if record != frame(payload):
            raise RecordError(
                f"{self.path}: record {index} (at byte {start}) is damaged: its checksum does not fit; "
                "run `tf-transformer prepare` again with --overwrite, or restore the file"
            )
        ids = np.frombuffer(payload, self._dtype)
        cut = self.lengths[index, 0]
        return ids[:cut], ids[cut:]

    def _map(self, expected: int) -> np.ndarray:
        try:
            size = self.path.stat().st_size
        except OSError as error:
            raise RecordError(
                f"{self.path}: the shard cannot be read ({error.strerror}); prepare it again with --overwrite"
            ) from None
        if size != expected:
            raise RecordError(
                f"{self.path}: expected {expected} bytes after its lengths, the file has {size}; it is cut or "
                "belongs to another run: prepare it again with --overwrite, or restore the file"
            )
        return np.memmap(self.path, np.uint8, "r") if size else np.zeros(0, np.uint8)


def lengths_path(shard: pathlib.Path) -> pathlib.Path:
    """Where the array of lengths [records, 2] of a shard lies."""
    return shard.with_suffix(".lengths.npy")


def _read_lengths(path: pathlib.Path) -> np.ndarray:
    try:
        lengths = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise RecordError(
            f"{path}: the array of lengths cannot be read ({error}); prepare it again with --overwrite"
        ) from None
    if lengths.ndim != 2 or lengths.shape[1] != 2 or lengths.dtype != np.int32 or (lengths < 1).any():
        raise RecordError(
            f"{path}: expected int32 lengths [records, 2] of at least 1; prepare it again with --overwrite"
        )
    return lengths


def _masked_crc(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
