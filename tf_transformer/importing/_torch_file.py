"""PyTorch's files of weights, read without torch and without executing the pickle in them.

A pickle is a program. Those that `torch.save` writes for weights have few instructions: they build a dictionary of
tensors. This reader follows these instructions and no others; names of functions stay text and are compared with the
few that weights have. Anything else is rejected by its name. Files since PyTorch 1.6 are zip archives (`data.pkl` and
one member per storage); older ones are a sequence of pickles and storages.
"""

import dataclasses
import io
import math
import pathlib
import pickletools
import struct
import zipfile
from typing import Any, BinaryIO, cast

import numpy as np

from tf_transformer.importing._archive import open_archive
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._files_read import record_file
from tf_transformer.importing._settings import shorten, show

MAX_INSTRUCTIONS = 1_000_000
MAX_PICKLE_BYTES = 16 * 2**20
_MAX_RANK = 4
_WHAT = "weights that torch.save wrote"
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_DICT, _TENSOR, _PARAMETER = (
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
)
# bfloat16 comes as its 16 bits.
_STORAGES = {"torch FloatStorage": "<f4", "torch HalfStorage": "<f2", "torch DoubleStorage": "<f8"}
_STORAGES |= {"torch BFloat16Storage": "<u2"}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = {"BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"}
_IGNORED = {"PROTO", "FRAME"}
_METHODS = {"MARK", "EMPTY_DICT", "EMPTY_LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "SETITEM", "SETITEMS", "APPEND"}
_METHODS |= {"APPENDS", "BUILD", "BINPERSID", "REDUCE"}


@dataclasses.dataclass(frozen=True)
class _Name:
    text: str


@dataclasses.dataclass(frozen=True)
class _Storage:
    kind: str
    key: str
    size: int


@dataclasses.dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch(file: pathlib.Path) -> dict[str, np.ndarray]:
    """The tensors of a file of weights by name, bfloat16 as float32."""
    record_file(file)
    try:
        if zipfile.is_zipfile(file):
            tensors, storages = _read_zip(file)
        else:
            tensors, storages = _read_sequence(file)
        return {name: _array(name, tensor, storages[tensor.storage]) for name, tensor in tensors.items()}
    except (ValueError, LookupError, TypeError, OSError, struct.error, OverflowError, MemoryError) as error:
        if isinstance(error, ImportedModelError) and str(file) in str(error):
            raise
        raise ImportedModelError(f"{file}: expected {_WHAT}. Received: {shorten(error)}. Get the file again.") from None


def _read_zip(file: pathlib.Path) -> tuple[dict[str, _Tensor], dict[_Storage, np.ndarray]]:
    with open_archive(file, _WHAT) as opened:
        names = [name for name in opened.namelist() if name.endswith("/data.pkl")]
        if len(names) != 1 or opened.getinfo(names[0]).file_size > MAX_PICKLE_BYTES:
            raise ValueError("no data.pkl of a usual size, or several")
        folder = names[0].removesuffix("data.pkl")
        if f"{folder}byteorder" in opened.namelist() and opened.read(f"{folder}byteorder")[:8] != b"little":
            raise ValueError("big-endian numbers")
        tensors = _weights(_interpret(io.BytesIO(opened.read(names[0]))))
        storages = {}
        for storage in {tensor.storage for tensor in tensors.values()}:
            member = opened.getinfo(f"{folder}data/{storage.key}")
            value = _empty(storage, member.file_size)
            with opened.open(member) as stream:
                _fill(cast(BinaryIO, stream), value)
                if stream.read(1):
                    raise ValueError(f"a storage {show(storage.key)} that is longer than it states")
            storages[storage] = value
    return tensors, storages


def _read_sequence(file: pathlib.Path) -> tuple[dict[str, _Tensor], dict[_Storage, np.ndarray]]:
    with file.open("rb") as stream:
        if _interpret(stream) != _MAGIC or _interpret(stream) != _PROTOCOL:
            raise ValueError("a file without the numbers that it begins with")
        system = _interpret(stream)
        if not isinstance(system, dict) or system.get("little_endian") is not True:
            raise ValueError("big-endian numbers")
        tensors = _weights(_interpret(stream))
        keys = _interpret(stream)
        by_key = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
        if not isinstance(keys, list) or set(map(str, keys)) != set(by_key) or len(keys) != len(by_key):
            raise ValueError("a list of storages that does not fit the tensors")
        storages = {}
        for key in keys:
            (size,) = struct.unpack("<q", stream.read(8))
            left = file.stat().st_size - stream.tell()
            value = _empty(by_key[key], size * np.dtype(_STORAGES[by_key[key].kind]).itemsize, left)
            _fill(stream, value)
            storages[by_key[key]] = value
    return tensors, storages


def _empty(storage: _Storage, size: int, left: int | None = None) -> np.ndarray:
    """An array for a storage of `size` bytes, of which `left` are in the file."""
    dtype = np.dtype(_STORAGES[storage.kind])
    if storage.size * dtype.itemsize != size or (left is not None and not 0 < size <= left):
        raise ValueError(f"a storage {show(storage.key)} of {size:,} bytes that states {storage.size:,} numbers")
    return np.empty(storage.size, dtype)


def _fill(stream: BinaryIO, value: np.ndarray) -> None:
    rest = memoryview(value.view(np.uint8).data)
    while rest:
        count = cast(io.BufferedIOBase, stream).readinto(rest)
        if not count:
            raise ValueError("a truncated file")
        rest = rest[count:]


def _array(name: str, tensor: _Tensor, storage: np.ndarray) -> np.ndarray:
    last = tensor.offset + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides))
    if last >= len(storage) or math.prod(tensor.shape) > len(storage):
        raise ValueError(f"{show(name)}, which reaches beyond its storage")
    strides = [stride * storage.itemsize for stride in tensor.strides]
    value = np.lib.stride_tricks.as_strided(storage[tensor.offset :], tensor.shape, strides)
    if tensor.storage.kind == "torch BFloat16Storage":
        return (value.astype(np.uint32) << 16).view(np.float32)
    return value


def _weights(value: Any) -> dict[str, _Tensor]:
    if not isinstance(value, dict) or not value:
        raise ValueError("no dictionary of weights")
    for name, tensor in value.items():
        if not isinstance(tensor, _Tensor):
            raise ValueError(f"{show(name)}, which is {type(tensor).__name__.strip('_')} and not a tensor")
    return value


def _interpret(stream: BinaryIO) -> Any:
    """The value that the next pickle of `stream` builds."""
    machine = _Machine()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        if count > MAX_INSTRUCTIONS:
            raise ValueError("a pickle with more instructions than any weights")
        if opcode.name == "STOP":
            return machine.pop()
        machine.step(opcode.name, argument)
    raise ValueError("a truncated pickle")


class _Machine:
    """The stack and the memo of a pickle. Nothing is imported or called."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def pop(self) -> Any:
        return self._stack.pop()

    def step(self, name: str, argument: Any) -> None:
        if name in _IGNORED:
            return
        if name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _VALUES:
            self._stack.append(argument)
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._memo[len(self._memo) if argument is None else argument] = self._stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self._stack.append(self._memo[argument])
        elif name == "GLOBAL":
            self._stack.append(_Name(str(argument)))
        elif name == "STACK_GLOBAL":
            last, first = self.pop(), self.pop()
            self._stack.append(_Name(f"{first} {last}"))
        elif name in _METHODS:
            getattr(self, f"_{name.lower()}")()
        else:
            raise ImportedModelError(f"a pickle with the instruction {name}, which weights do not need")

    def _mark(self) -> None:
        self._marks.append(self._stack)
        self._stack = []

    def _above_mark(self) -> list[Any]:
        above, self._stack = self._stack, self._marks.pop()
        return above

    def _empty_dict(self) -> None:
        self._stack.append({})

    def _empty_list(self) -> None:
        self._stack.append([])

    def _tuple(self) -> None:
        values = tuple(self._above_mark())
        self._stack.append(values)

    def _tuple1(self) -> None:
        self._stack[-1:] = [tuple(self._stack[-1:])]

    def _tuple2(self) -> None:
        self._stack[-2:] = [tuple(self._stack[-2:])]

    def _tuple3(self) -> None:
        self._stack[-3:] = [tuple(self._stack[-3:])]

    def _setitem(self) -> None:
        value, key = self.pop(), self.pop()
        self._set([key, value])

    def _setitems(self) -> None:
        self._set(self._above_mark())

    def _set(self, flat: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict) or len(flat) % 2 or not all(isinstance(key, str) for key in flat[::2]):
            raise ValueError("a pickle that fills something else than a dictionary of names")
        target.update(zip(flat[::2], flat[1::2]))

    def _append(self) -> None:
        self._extend([self.pop()])

    def _appends(self) -> None:
        self._extend(self._above_mark())

    def _extend(self, values: list[Any]) -> None:
        if not isinstance(self._stack[-1], list):
            raise ValueError("a pickle that appends to something else than a list")
        self._stack[-1].extend(values)

    def _build(self) -> None:
        """An ordered dictionary of weights has an attribute with versions, which is not needed."""
        self.pop()
        if not isinstance(self._stack[-1], dict):
            raise ImportedModelError("a pickle that sets attributes of an object, which weights do not need")

    def _binpersid(self) -> None:
        """A storage: its kind, key, device and size. Old files add None, or a part of another storage."""
        identity = self.pop()
        if not isinstance(identity, tuple) or len(identity) not in (5, 6) or identity[0] != "storage":
            raise ValueError("a pickle that refers to something else than a storage")
        _, kind, key, _, size = identity[:5]
        if not isinstance(kind, _Name) or kind.text not in _STORAGES:
            found = kind.text.removeprefix("torch ") if isinstance(kind, _Name) else show(kind)
            raise ImportedModelError(f"{found[:80]}, which has no floating-point numbers")
        if not isinstance(key, str) or type(size) is not int or size < 1 or identity[5:] not in ((), (None,)):
            raise ValueError("a storage without key or size")
        self._stack.append(_Storage(kind.text, key, size))

    def _reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        name = function.text if isinstance(function, _Name) else show(function)
        if name == _DICT and arguments == ():
            self._stack.append({})
        elif name == _TENSOR and isinstance(arguments, tuple):
            self._stack.append(_tensor(arguments))
        elif name == _PARAMETER and isinstance(arguments, tuple) and arguments and isinstance(arguments[0], _Tensor):
            self._stack.append(arguments[0])
        else:
            raise ImportedModelError(
                f"a pickle that calls {name[:80].replace(' ', '.')}, which is not executed: weights do not need it"
            )


def _tensor(arguments: tuple) -> _Tensor:
    if len(arguments) < 4 or not isinstance(arguments[0], _Storage):
        raise ValueError("a tensor without storage")
    storage, offset, shape, strides = arguments[:4]
    numbers = [offset, *shape, *strides] if isinstance(shape, tuple) and isinstance(strides, tuple) else [None]
    if not all(type(number) is int and 0 <= number < 2**40 for number in numbers) or len(shape) != len(strides):
        raise ValueError("a tensor without shape")
    if len(shape) > _MAX_RANK or 0 in shape:
        raise ValueError(f"a tensor of shape {shape}")
    return _Tensor(storage, offset, shape, strides)
