"""CTranslate2's model.bin and config.json, read without trusting a length in them.

The file is: version (uint32), name of the specification, its revision (uint32), number of variables (uint32), the
variables, number of aliases (uint32), the aliases. A variable is its name, rank (uint8), dimensions (uint32 each),
type (uint8), number of bytes (uint32), data. An alias is two names. A string is its length with a NUL (uint16), the
bytes and the NUL. All of it is little-endian.
"""

import dataclasses
import math
import pathlib
import struct

import numpy as np

from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._files import read_json

VERSIONS = range(4, 7)
SPECIFICATION = "TransformerSpec"
# bfloat16 comes as its 16 bits.
_TYPES = ("<f4", "i1", "<i2", "<i4", "<f2", "<u2")
_BFLOAT16 = 5
_MAX_RANK = 3
TEXTS = ("unk_token", "bos_token", "eos_token")
"""Variables of older models whose bytes are text."""


@dataclasses.dataclass(frozen=True)
class BinaryModel:
    """The variables of a model.bin, aliases resolved, quantized weights brought back to float32."""

    version: int
    revision: int
    variables: dict[str, np.ndarray]


def read_binary_model(path: str | pathlib.Path) -> BinaryModel:
    """Reads a model.bin; ImportedModelError names what is wrong with it."""
    reader = _Reader(pathlib.Path(path))
    version = reader.number("<I")
    if version not in VERSIONS:
        raise reader.error(
            f"its format has version {version}, we read {VERSIONS[0]} to {VERSIONS[-1]}. If it is a CTranslate2 model "
            "at all, convert it with a newer CTranslate2"
        )
    name, revision = reader.string(), reader.number("<I")
    if name != SPECIFICATION:
        raise reader.error(f"it is a {name!r}; we import models of CTranslate2's {SPECIFICATION!r}")
    variables = {}
    for _ in range(reader.number("<I")):
        variable = reader.string()
        if variable in variables:
            raise reader.error(f"it has two variables {variable!r}")
        variables[variable] = reader.array()
    for _ in range(reader.number("<I")):
        alias, variable = reader.string(), reader.string()
        if variable not in variables or alias in variables:
            raise reader.error(f"its alias {alias!r} of {variable!r} leads nowhere")
        variables[alias] = variables[variable]
        if f"{variable}_scale" in variables:
            variables[f"{alias}_scale"] = variables[f"{variable}_scale"]
    reader.end()
    return BinaryModel(version, revision, _dequantized(variables, reader))


def _dequantized(variables: dict[str, np.ndarray], reader: "_Reader") -> dict[str, np.ndarray]:
    """Weights divided by their scales, one a row or one for all; the scales are gone then."""
    values = {}
    for name, value in variables.items():
        if name.endswith("_scale") and name.removesuffix("_scale") in variables:
            continue
        scale = variables.get(f"{name}_scale")
        if scale is not None:
            if scale.dtype != np.float32 or scale.shape not in ((), (1,), value.shape[:1]) or not (scale > 0).all():
                raise reader.error(f"the scales of {name!r} do not fit it")
            value = value.astype(np.float32) / scale.reshape(-1, *[1] * (value.ndim - 1))
        elif value.ndim and value.dtype != np.float32 and name not in TEXTS:
            raise reader.error(f"{name!r} is {value.dtype} without scales")
        values[name] = value
    return values


class _Reader:
    """The bytes of a file, taken from the front."""

    def __init__(self, path: pathlib.Path):
        if not path.is_file():
            raise ImportedModelError(f"{path.parent} has no {path.name}: it is no CTranslate2 model.")
        self._path, self._data, self._at = path, path.read_bytes(), 0

    def error(self, what: str) -> ImportedModelError:
        return ImportedModelError(f"{self._path} cannot be imported: {what}.")

    def number(self, form: str) -> int:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def string(self) -> str:
        raw = bytes(self._take(self.number("<H")))
        try:
            text = raw.removesuffix(b"\0").decode("utf-8")
        except UnicodeDecodeError:
            text = ""
        if not raw.endswith(b"\0") or not text.isprintable() or not text:
            raise self.error(f"a name near byte {self._at} is none")
        return text

    def array(self) -> np.ndarray:
        """A variable: a new array, float16 and bfloat16 widened to float32."""
        rank = self.number("B")
        if rank > _MAX_RANK:
            raise self.error(f"a variable near byte {self._at} has {rank} dimensions")
        shape = tuple(self.number("<I") for _ in range(rank))
        kind, size = self.number("B"), self.number("<I")
        if kind >= len(_TYPES) or size != math.prod(shape) * np.dtype(_TYPES[kind]).itemsize:
            raise self.error(f"a variable near byte {self._at} has type {kind}, shape {shape} and {size} bytes")
        value = np.frombuffer(self._take(size), _TYPES[kind]).reshape(shape)
        if kind == _BFLOAT16:
            return (value.astype(np.uint32) << 16).view(np.float32)
        return value.astype(np.float32) if value.dtype == np.float16 else value.copy()

    def end(self) -> None:
        if self._at != len(self._data):
            raise self.error(f"{len(self._data) - self._at} bytes follow its end")

    def _take(self, size: int) -> memoryview:
        if self._at + size > len(self._data):
            raise self.error(f"it is truncated: {len(self._data):,} bytes are too few")
        taken = memoryview(self._data)[self._at : self._at + size]
        self._at += size
        return taken


# The first version of the format that has config.json.
_WITH_FILE = 6
# What CTranslate2 takes where config.json says null.
_EPSILON = 1e-5
_TOKENS = dict(zip(TEXTS, ("<unk>", "<s>", "</s>")))
_FLAGS = {"add_source_bos": "with_source_bos", "add_source_eos": "with_source_eos"}
_START, _ITS_OWN = "decoder_start_token", "user_decoder_start_tokens"
VARIABLES = (*_TOKENS, *_FLAGS.values(), "with_target_bos", _ITS_OWN)
"""The variables of older models that are read here."""


@dataclasses.dataclass(frozen=True)
class CTranslate2Config:
    """The special tokens, whether sources end in one, and the epsilon of the norms."""

    unknown: str
    end: str
    start: str
    source_end: bool
    epsilon: float


def read_config(directory: pathlib.Path, binary: BinaryModel) -> CTranslate2Config:
    """The settings of a model directory; what we have no part for is rejected by its name."""
    if binary.version < _WITH_FILE:
        name, values = directory / "model.bin", _older(binary)
    else:
        name, values = directory / "config.json", read_json(directory / "config.json")
    tokens = {field: values.get(field, default) for field, default in _TOKENS.items()}
    tokens[_START] = values.get(_START, tokens["bos_token"])
    if tokens[_START] is None:
        raise ImportedModelError(
            f"{name}: {_START} is null: this model is told with each sentence what to start from; ours are not."
        )
    for field, token in tokens.items():
        if not isinstance(token, str) or not token:
            raise ImportedModelError(f"{name}: {field} must be a token, not {token!r}.")
    flags = {field: values.get(field, False) for field in _FLAGS}
    for field, flag in flags.items():
        if not isinstance(flag, bool):
            raise ImportedModelError(f"{name}: {field} must be true or false, not {flag!r}.")
    if flags["add_source_bos"]:
        raise ImportedModelError(f"{name}: add_source_bos is true: our sources begin with no start token.")
    epsilon = _epsilon(values.get("layer_norm_epsilon"), name)
    return CTranslate2Config(tokens["unk_token"], tokens["eos_token"], tokens[_START], flags["add_source_eos"], epsilon)


def _epsilon(value, name: pathlib.Path) -> float:
    if value is None:
        return _EPSILON
    if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
        raise ImportedModelError(f"{name}: layer_norm_epsilon must be a number above 0, not {value!r}.")
    return float(value)


def _older(binary: BinaryModel) -> dict:
    """The same settings from the variables of a model that is older than config.json."""
    found = binary.variables
    values = {name: bytes(found[name]).decode("utf-8", "replace") for name in _TOKENS if name in found}
    values |= {field: bool(found[flag].any()) for field, flag in _FLAGS.items() if flag in found}
    if _ITS_OWN in found and found[_ITS_OWN].any():
        values[_START] = None
    elif "with_target_bos" in found and not found["with_target_bos"].any():
        values[_START] = values.get("eos_token", _TOKENS["eos_token"])
    return values
