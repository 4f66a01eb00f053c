"""The readers of our own files, which others may have changed, and of requests."""

import functools
import gzip
import json
import pathlib
import random
import struct
import tempfile

import google_crc32c
import keras
import numpy as np
import tensorflow as tf
from fuzz.mutation import mutate, mutate_json, mutate_safetensors
from fuzz.readers import Reader

from tf_transformer.config import Config, ConfigError
from tf_transformer.data import PreparedDataset
from tf_transformer.data._pair_ids import PairIds
from tf_transformer.data._prepared import PreparedError
from tf_transformer.data._record_layout import RecordError, check_layout
from tf_transformer.data._records import ShardReader, ShardWriter, failed_assertion
from tf_transformer.export.serving._errors import BadRequest
from tf_transformer.export.serving._json import inflate
from tf_transformer.export.serving._libretranslate import parse as parse_libretranslate
from tf_transformer.export.serving._rest import parse_predict
from tf_transformer.workdir import checkpoints
from tf_transformer.workdir._weights import assign_tensors
from tf_transformer.workdir.checkpoints import CheckpointError

_WEIGHTS = {"embedding": np.ones((7, 4), np.float32), "norm/gamma": np.ones(4, np.float32)}
_SPECS = {
    "serving_default": {"text": tf.TensorSpec([None], tf.string)},
    "score": {"source": tf.TensorSpec([None], tf.string), "target": tf.TensorSpec([None], tf.string)},
    "numbers": {"x": tf.TensorSpec([None, 2], tf.int32), "y": tf.TensorSpec([], tf.float32)},
}
_BODIES = (
    b'{"instances": ["a", "b\\u00e9", {"b64": "YWJj"}]}',
    b'{"signature_name": "score", "instances": [{"source": "a", "target": "b"}, {"source": "", "target": "c"}]}',
    b'{"signature_name": "numbers", "inputs": {"x": [[1, 2], [3, 4]], "y": 2.5}}',
)


@functools.cache
def own_readers() -> dict[str, Reader]:
    """The readers by name."""
    config = json.dumps(Config().to_dict() | {"versions": {"keras": "3.15"}}).encode()
    return {
        "config": Reader("config.json", (config,), Config.load, mutate_json, ConfigError),
        "dataset-info": Reader("dataset.json", (_dataset_info(),), _read_dataset, mutate_json, PreparedError),
        "checkpoint-info": Reader("checkpoint.json", _infos(), _read_info, _mutate_info, CheckpointError),
        "checkpoint-weights": Reader(
            checkpoints.MODEL, (_weights(),), _read_weights, mutate_safetensors, CheckpointError
        ),
        "tfrecord": Reader("train-00000.tfrecord", (_shard(),), _read_shard, _mutate_shard, RecordError),
        "rest": Reader("body", _BODIES, _read_body, mutate_json, BadRequest, named=False),
        "rest-gzip": Reader(
            "body", tuple(map(gzip.compress, _BODIES)), _read_gzip, _mutate_gzip, BadRequest, named=False
        ),
        "libretranslate": Reader(
            "body",
            (
                b'{"q": ["a", "b"], "source": "en", "target": "de"}',
                b'{"q": "a", "source": "en", "target": "de", "alternatives": 3}',
            ),
            lambda path: parse_libretranslate(path.read_bytes(), "application/json", 64),
            mutate_json,
            BadRequest,
            named=False,
        ),
    }


def _dataset_info() -> bytes:
    shard = {"file": "train-00000.tfrecord", "pairs": 3, "bytes": 99, "sha256": "0" * 64}
    split = {"pairs": 3, "shards": [shard], "id_type": "<u2", "lengths_sha256": "0" * 64, "cleaning": {"read": 3}}
    text = {"pairs": 1, "files": {"test.source.txt": {"bytes": 5, "sha256": "0" * 64}}}
    return json.dumps(
        {"format": 2, "source_language": "en", "target_language": "de", "fingerprint": "0" * 16, "inputs": {"seed": 1},
         "tokenizer": {"sha256": {"source": "0" * 64, "target": "0" * 64}}, "splits": {"train": split, "test": text}}
    ).encode()  # fmt: skip


def _read_dataset(path: pathlib.Path) -> None:
    """Check `dataset.json` as a command does, and raise the error of the first missing file."""
    prepared = PreparedDataset(path.parent)
    assert isinstance(prepared.source_language + prepared.target_language, str)
    for split in prepared.splits:
        for shard in prepared.info["splits"][split].get("shards", ()):
            try:
                prepared._check_size(shard)
            except RecordError as error:
                assert str(path.parent) in str(error)


def _in_folder(make) -> bytes:
    """The file that `make` writes to a path."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "file")
        make(path)
        return path.read_bytes()


def _weights() -> bytes:
    return _in_folder(lambda path: checkpoints._write_tensors(path, _WEIGHTS))


def _infos() -> tuple[bytes, ...]:
    """checkpoint.json with and without the state of a training run."""
    found = []
    for training in (None, {"m/iterations": np.array(7)}):
        with tempfile.TemporaryDirectory() as folder:
            place = checkpoints.save_checkpoint(pathlib.Path(folder, "c"), _WEIGHTS, training, step=7, run="r")
            found.append((place / checkpoints.INFO).read_bytes().rstrip())
    return tuple(found)


def _mutate_info(data: bytes, choose: random.Random) -> bytes:
    """Changed values, often with the checksum of the changed ones: nothing but the reader's checks rejects these."""
    changed = mutate_json(data, choose)
    if choose.random() < 0.3:
        return changed
    try:
        info = json.loads(changed)
        del info["sha256"]
        return json.dumps(info | {"sha256": checkpoints._info_digest(info)}).encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        return changed


def _read_info(path: pathlib.Path) -> None:
    weights, training = path.parent / checkpoints.MODEL, path.parent / checkpoints.TRAINING
    if not weights.exists():
        checkpoints._write_tensors(weights, _WEIGHTS)
        checkpoints._write_tensors(training, {"m/iterations": np.array(7)})
    checkpoints.verify_checkpoint(path.parent)
    checkpoints.load_model_tensors(path.parent)
    checkpoints.latest_intact(path.parent.parent)
    checkpoints.is_resumable(path.parent)


@functools.cache
def _variables() -> dict:
    return {name: keras.Variable(value) for name, value in _WEIGHTS.items()}


def _read_weights(path: pathlib.Path) -> None:
    """A checkpoint whose checksums are right: its maker is who changed it."""
    (path.parent / checkpoints.INFO).unlink(missing_ok=True)
    checkpoints._write_info(path.parent, {"format": checkpoints.FORMAT, "step": 7})
    checkpoints.verify_checkpoint(path.parent)
    assign_tensors(_variables(), checkpoints.load_model_tensors(path.parent), str(path))


def _shard() -> bytes:
    def make(path: pathlib.Path) -> None:
        writer = ShardWriter(path, "toy/train-00000.tfrecord")
        for _ in range(2):
            writer.write(PairIds.of([[5, 6, 3], [3], [9, 3]], [[8, 3], [7, 7, 3], [3]], np.dtype("<u2")))
            writer._flush()
        writer.close()

    return _in_folder(make)


@functools.cache
def _shard_reader(path: pathlib.Path):
    reader = ShardReader([path], [6], ["toy/train-00000.tfrecord"], "<u2", (50, 50))
    return tf.function(lambda: reader.read(tf.constant([0], tf.int64)))


def _read_shard(path: pathlib.Path) -> None:
    """As training reads: sizes first, then the graph, whose errors are explained by the file."""
    check_layout(path, path.stat().st_size, 2)
    try:
        pairs = _shard_reader(path)()
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        if isinstance(error, tf.errors.DataLossError):  # a checksum; `verify` names the file by its SHA-256
            raise RecordError(f"{path}: {error.message[:200]}") from None
        if not isinstance(error, UnicodeDecodeError) and (failed := failed_assertion(error)):
            raise RecordError(failed) from None
        raise
    for ids, splits in ((pairs.source, pairs.source_splits), (pairs.target, pairs.target_splits)):
        assert int(splits[-1]) == len(ids) and len(splits) == 7 and int(tf.reduce_max(ids)) < 50


def _mutate_shard(data: bytes, choose: random.Random) -> bytes:
    """Changed bytes, or changed records with correct checksums, or a record that states another length."""
    if choose.random() < 0.2:
        return mutate(data, choose)
    records, place = [], 0
    while place < len(data):
        length = int.from_bytes(data[place : place + 8], "little")
        records.append(data[place + 12 : place + 12 + length])
        place += 16 + length
    number = choose.randrange(len(records))
    records[number] = mutate(records[number], choose)
    stated = choose.choice((2**63, 2**40, 10**9, 2**64 - 1, 0, 7)) if choose.random() < 0.1 else None
    return b"".join(_framed(each, stated if place == number else None) for place, each in enumerate(records))


def _framed(record: bytes, stated: int | None) -> bytes:
    head = struct.pack("<Q", len(record) if stated is None else stated)
    return head + _checksum(head) + record + _checksum(record)


def _checksum(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _inputs_of(name: str) -> dict:
    if name not in _SPECS:
        raise BadRequest(f"no signature {name[:100]!r}")
    return _SPECS[name]


def _read_body(path: pathlib.Path) -> None:
    _check_request(path.read_bytes())


def _read_gzip(path: pathlib.Path) -> None:
    _check_request(inflate(path.read_bytes(), 1 << 16))


def _check_request(body: bytes) -> None:
    request = parse_predict(body, _inputs_of, 64)
    for name, spec in _SPECS[request.signature].items():
        array = request.tensors[name]
        assert spec.shape.is_compatible_with(array.shape) and array.dtype == spec.dtype.as_numpy_dtype


def _mutate_gzip(data: bytes, choose: random.Random) -> bytes:
    """Changed bytes of the stream, or of what it contains, or far more than it may contain."""
    kind = choose.random()
    if kind < 0.5:
        return mutate(data, choose)
    body = gzip.decompress(data)
    return gzip.compress(mutate_json(body, choose) if kind < 0.95 else body + bytes(1 << 20), 1)
