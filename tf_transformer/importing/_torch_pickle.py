"""The pickles in PyTorch's files of weights, followed without being executed.

A pickle is a program. Those that `torch.save` writes for weights have few instructions: they build a dictionary of
tensors. This reader follows these instructions and no others; names of functions stay text and are compared with the
few that weights have. Anything else is rejected by its name.
"""

import dataclasses
import pickletools
from typing import Any, BinaryIO

from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._settings import show

MAX_INSTRUCTIONS = 1_000_000
_MAX_RANK = 4
_DICT, _TENSOR, _PARAMETER = (
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
)
# bfloat16 comes as its 16 bits.
STORAGES = {"torch FloatStorage": "<f4", "torch HalfStorage": "<f2", "torch DoubleStorage": "<f8"}
STORAGES |= {"torch BFloat16Storage": "<u2"}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = {"BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"}
_IGNORED = {"PROTO", "FRAME"}
_METHODS = {"MARK", "EMPTY_DICT", "EMPTY_LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "SETITEM", "SETITEMS", "APPEND"}
_METHODS |= {"APPENDS", "BUILD", "BINPERSID", "REDUCE"}


@dataclasses.dataclass(frozen=True)
class _Name:
    text: str


@dataclasses.dataclass(frozen=True)
class Storage:
    """Numbers in a file: their type by torch's name, the name of the storage, and how many there are."""

    kind: str
    key: str
    size: int


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An array in a storage; offset and strides count numbers."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def tensors_of(value: Any) -> dict[str, Tensor]:
    """The tensors by name of a pickle that is a dictionary of them; ValueError for another one."""
    if not isinstance(value, dict) or not value:
        raise ValueError("no dictionary of weights")
    for name, tensor in value.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{show(name)}, which is {type(tensor).__name__.strip('_')} and not a tensor")
    return value


def interpret(stream: BinaryIO) -> Any:
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
        if not isinstance(kind, _Name) or kind.text not in STORAGES:
            found = kind.text.removeprefix("torch ") if isinstance(kind, _Name) else show(kind)
            raise ImportedModelError(f"{found[:80]}, which has no floating-point numbers")
        if not isinstance(key, str) or type(size) is not int or size < 1 or identity[5:] not in ((), (None,)):
            raise ValueError("a storage without key or size")
        self._stack.append(Storage(kind.text, key, size))

    def _reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        name = function.text if isinstance(function, _Name) else show(function)
        if name == _DICT and arguments == ():
            self._stack.append({})
        elif name == _TENSOR and isinstance(arguments, tuple):
            self._stack.append(_tensor(arguments))
        elif name == _PARAMETER and isinstance(arguments, tuple) and arguments and isinstance(arguments[0], Tensor):
            self._stack.append(arguments[0])
        else:
            raise ImportedModelError(
                f"a pickle that calls {name[:80].replace(' ', '.')}, which is not executed: weights do not need it"
            )


def _tensor(arguments: tuple) -> Tensor:
    if len(arguments) < 4 or not isinstance(arguments[0], Storage):
        raise ValueError("a tensor without storage")
    storage, offset, shape, strides = arguments[:4]
    numbers = [offset, *shape, *strides] if isinstance(shape, tuple) and isinstance(strides, tuple) else [None]
    if not all(type(number) is int and 0 <= number < 2**40 for number in numbers) or len(shape) != len(strides):
        raise ValueError("a tensor without shape")
    if len(shape) > _MAX_RANK or 0 in shape:
        raise ValueError(f"a tensor of shape {shape}")
    return Tensor(storage, offset, shape, strides)
