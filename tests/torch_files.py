"""PyTorch's files of weights, written without torch, for tests of what reads them."""

import collections
import contextlib
import io
import pickle
import struct
import sys
import types
import zipfile
from collections.abc import Iterator
from unittest import mock

import numpy as np

KINDS = {"float32": "FloatStorage", "float16": "HalfStorage", "float64": "DoubleStorage", "int64": "LongStorage"}


class _Storage:
    def __init__(self, kind: type, key: str, value: np.ndarray) -> None:
        self.kind, self.key, self.value = kind, key, value


class _Tensor:
    def __init__(self, storage: _Storage, offset: int, shape: tuple, strides: tuple) -> None:
        self.arguments = (storage, offset, shape, strides, False, collections.OrderedDict())

    def __reduce__(self) -> tuple:
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.arguments


@contextlib.contextmanager
def _torch() -> Iterator[types.ModuleType]:
    """Modules with the names that the pickles refer to."""
    torch, functions = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in KINDS.values():
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    functions._rebuild_tensor_v2 = _rebuild_tensor_v2
    functions._rebuild_tensor_v2.__module__ = "torch._utils"
    with mock.patch.dict(sys.modules, {"torch": torch, "torch._utils": functions}):
        yield torch


def _rebuild_tensor_v2(*arguments: object) -> None:
    raise AssertionError("called")


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, protocol: int, old: bool) -> None:
        super().__init__(stream, protocol)
        self._old = old

    def persistent_id(self, value: object) -> tuple | None:
        if not isinstance(value, _Storage):
            return None
        found = ("storage", value.kind, value.key, "cpu", value.value.size)
        return (*found, None) if self._old else found


def _pickled(values: object, protocol: int, old: bool) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, protocol, old).dump(values)
    return stream.getvalue()


def torch_file(weights: dict[str, np.ndarray], old: bool = False, protocol: int = 2) -> bytes:
    """The bytes of `torch.save` of a dictionary of tensors.

    Args:
        old: whether in the form before PyTorch 1.6, a sequence of pickles.
    """
    with _torch() as torch:
        storages, tensors = [], collections.OrderedDict()
        for name, value in weights.items():
            # A transposed array keeps its memory, as torch's tensors do.
            memory = value.T if value.flags.f_contiguous and not value.flags.c_contiguous else value
            memory = np.ascontiguousarray(memory).reshape(-1)
            storages.append(_Storage(getattr(torch, KINDS[value.dtype.name]), str(len(storages)), memory))
            strides = tuple(stride // value.itemsize for stride in value.strides)
            tensors[name] = _Tensor(storages[-1], 0, value.shape, strides)
        pickled = _pickled(tensors, protocol, old)
    if old:
        return _sequence(pickled, storages, protocol)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("weights/data.pkl", pickled)
        archive.writestr("weights/byteorder", b"little")
        for storage in storages:
            archive.writestr(f"weights/data/{storage.key}", storage.value.tobytes())
        archive.writestr("weights/version", b"3\n")
    return stream.getvalue()


def _sequence(pickled: bytes, storages: list[_Storage], protocol: int) -> bytes:
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    parts = [pickle.dumps(value, protocol) for value in (0x1950A86A20F9469CFC6C, 1001, system)]
    parts += [pickled, pickle.dumps([storage.key for storage in storages], protocol)]
    for storage in storages:
        parts.append(struct.pack("<q", storage.value.size) + storage.value.tobytes())
    return b"".join(parts)
