"""PyTorch's files of weights, read without torch and without executing the pickle in them.

Files since PyTorch 1.6 are zip archives (`data.pkl` and one member per storage); older ones are a sequence of pickles
and storages.
"""

import contextlib
import io
import math
import pathlib
import struct
import zipfile
from collections.abc import Iterator, Mapping
from typing import BinaryIO, cast

import numpy as np

from tf_transformer.importing._archive import open_archive
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._files_read import record_file
from tf_transformer.importing._settings import shorten, show
from tf_transformer.importing._torch_pickle import STORAGES, Storage, Tensor, interpret, tensors_of

MAX_PICKLE_BYTES = 16 * 2**20
_WHAT = "weights that torch.save wrote"
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


class TorchWeights(Mapping[str, np.ndarray]):
    """The tensors of a file by name, bfloat16 as float32, each read anew whenever it is used.

    Args:
        file: the file.
        tensors: what its pickle says.
        places: of each storage, the member of an archive, or the position in the file.
    """

    def __init__(self, file: pathlib.Path, tensors: dict[str, Tensor], places: Mapping[Storage, str | int]) -> None:
        self._file, self._tensors, self._places = file, tensors, places

    @property
    def nbytes(self) -> int:
        """The size of all tensors."""
        return sum(math.prod(each.shape) * _dtype(each.storage).itemsize for each in self._tensors.values())

    def __getitem__(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        with _named_errors(self._file):
            return _array(tensor, self._storage(tensor.storage))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def _storage(self, storage: Storage) -> np.ndarray:
        place, value = self._places[storage], np.empty(storage.size, _dtype(storage))
        if isinstance(place, int):
            with self._file.open("rb") as stream:
                stream.seek(place)
                _fill(stream, value)
            return value
        with open_archive(self._file, _WHAT) as opened, opened.open(place) as stream:
            _fill(cast(BinaryIO, stream), value)
            if stream.read(1):
                raise ValueError(f"a storage {show(storage.key)} that is longer than it states")
        return value


def read_torch(file: pathlib.Path) -> TorchWeights:
    """The weights of a file. Sizes and places of all are checked before one is read."""
    record_file(file)
    with _named_errors(file):
        found = _read_zip(file) if zipfile.is_zipfile(file) else _read_sequence(file)
        for name, tensor in found[0].items():
            _check_extent(name, tensor)
    return TorchWeights(file, *found)


@contextlib.contextmanager
def _named_errors(file: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, LookupError, TypeError, OSError, struct.error, OverflowError, MemoryError) as error:
        if isinstance(error, ImportedModelError) and str(file) in str(error):
            raise
        raise ImportedModelError(f"{file}: expected {_WHAT}. Received: {shorten(error)}. Get the file again.") from None


def _read_zip(file: pathlib.Path) -> tuple[dict[str, Tensor], dict[Storage, str | int]]:
    with open_archive(file, _WHAT) as opened:
        names = [name for name in opened.namelist() if name.endswith("/data.pkl")]
        if len(names) != 1 or opened.getinfo(names[0]).file_size > MAX_PICKLE_BYTES:
            raise ValueError("no data.pkl of a usual size, or several")
        folder = names[0].removesuffix("data.pkl")
        if f"{folder}byteorder" in opened.namelist() and opened.read(f"{folder}byteorder")[:8] != b"little":
            raise ValueError("big-endian numbers")
        tensors = tensors_of(interpret(io.BytesIO(opened.read(names[0]))))
        places: dict[Storage, str | int] = {}
        for storage in {tensor.storage for tensor in tensors.values()}:
            member = opened.getinfo(f"{folder}data/{storage.key}")
            _check_size(storage, member.file_size)
            places[storage] = member.filename
    return tensors, places


def _read_sequence(file: pathlib.Path) -> tuple[dict[str, Tensor], dict[Storage, str | int]]:
    with file.open("rb") as stream:
        if interpret(stream) != _MAGIC or interpret(stream) != _PROTOCOL:
            raise ValueError("a file without the numbers that it begins with")
        system = interpret(stream)
        if not isinstance(system, dict) or system.get("little_endian") is not True:
            raise ValueError("big-endian numbers")
        tensors = tensors_of(interpret(stream))
        keys = interpret(stream)
        by_key = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
        if not isinstance(keys, list) or set(map(str, keys)) != set(by_key) or len(keys) != len(by_key):
            raise ValueError("a list of storages that does not fit the tensors")
        places: dict[Storage, str | int] = {}
        for key in keys:
            (size,) = struct.unpack("<q", stream.read(8))
            left = file.stat().st_size - stream.tell()
            _check_size(by_key[key], size * _dtype(by_key[key]).itemsize, left)
            places[by_key[key]] = stream.tell()
            stream.seek(size * _dtype(by_key[key]).itemsize, io.SEEK_CUR)
    return tensors, places


def _dtype(storage: Storage) -> np.dtype:
    return np.dtype(STORAGES[storage.kind])


def _check_size(storage: Storage, size: int, left: int | None = None) -> None:
    """Reject a storage that does not have `size` bytes, or more than the `left` ones of the file."""
    if storage.size * _dtype(storage).itemsize != size or (left is not None and not 0 < size <= left):
        raise ValueError(f"a storage {show(storage.key)} of {size:,} bytes that states {storage.size:,} numbers")


def _check_extent(name: str, tensor: Tensor) -> None:
    last = tensor.offset + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides))
    if last >= tensor.storage.size or math.prod(tensor.shape) > tensor.storage.size:
        raise ValueError(f"{show(name)}, which reaches beyond its storage")


def _fill(stream: BinaryIO, value: np.ndarray) -> None:
    rest = memoryview(value.view(np.uint8).data)
    while rest:
        count = cast(io.BufferedIOBase, stream).readinto(rest)
        if not count:
            raise ValueError("a truncated file")
        rest = rest[count:]


def _array(tensor: Tensor, storage: np.ndarray) -> np.ndarray:
    strides = [stride * storage.itemsize for stride in tensor.strides]
    value = np.lib.stride_tricks.as_strided(storage[tensor.offset :], tensor.shape, strides)
    if tensor.storage.kind == "torch BFloat16Storage":
        return (value.astype(np.uint32) << 16).view(np.float32)
    return value
