"""CTranslate2's model.bin and config.json, read without trusting a length in them.

The file is: version (uint32), name of the specification, its revision (uint32), number of variables (uint32), the
variables, number of aliases (uint32), the aliases. A variable is its name, rank (uint8), dimensions (uint32 each),
type (uint8), number of bytes (uint32), data. An alias is two names. A string is its length with a NUL (uint16), the
bytes and the NUL. All of it is little-endian.
"""

import dataclasses
import math
import pathlib
from typing import Any

import numpy as np

from tf_transformer.importing._binary_file import BinaryFile
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._settings import read_json, show

VERSIONS = range(4, 7)
SPECIFICATION = "TransformerSpec"
# bfloat16 comes as its 16 bits.
_TYPES = ("<f4", "i1", "<i2", "<i4", "<f2", "<u2")
_BFLOAT16 = 5
_MAX_RANK = 3
# Shared embeddings are stored once and named three times.
MAX_REPETITION = 4
_SMALL = 2**20
TEXTS = ("unk_token", "bos_token", "eos_token")
"""Variables of older models whose bytes are text."""


@dataclasses.dataclass(frozen=True)
class BinaryModel:
    """The variables of a model.bin, aliases resolved, quantized weights brought back to float32."""

    version: int
    revision: int
    variables: dict[str, np.ndarray]


def read_binary_model(path: str | pathlib.Path) -> BinaryModel:
    """Read a model.bin; ImportedModelError names what is wrong with it."""
    with BinaryFile(pathlib.Path(path), "a CTranslate2 model") as file:
        version = file.number("<I")
        if version not in VERSIONS:
            raise file.error(
                f"version {version} of the format, not one from {VERSIONS[0]} to {VERSIONS[-1]}",
                "If it is a CTranslate2 model at all, convert it with a newer CTranslate2.",
            )
        name, revision = _string(file), file.number("<I")
        if name != SPECIFICATION:
            raise file.error(f"a model of the specification {show(name)}, not of {SPECIFICATION!r}")
        variables = _variables(file)
        stored = sum(value.size for value in variables.values())
        _add_aliases(file, variables)
        file.check_end()
    named = sum(value.size for value in variables.values())
    if named > MAX_REPETITION * stored + _SMALL:
        raise file.error(
            f"aliases that turn {stored:,} numbers into {named:,}, more than {MAX_REPETITION} times as many"
        )
    return BinaryModel(version, revision, _dequantized(variables, file))


def _variables(file: BinaryFile) -> dict[str, np.ndarray]:
    variables = {}
    for _ in range(file.number("<I")):
        name = _string(file)
        if name in variables:
            raise file.error(f"two variables {show(name)}")
        variables[name] = _array(file)
    return variables


def _add_aliases(file: BinaryFile, variables: dict[str, np.ndarray]) -> None:
    for _ in range(file.number("<I")):
        alias, name = _string(file), _string(file)
        if name not in variables or alias in variables:
            raise file.error(f"an alias {show(alias)} of {show(name)} that leads nowhere")
        variables[alias] = variables[name]
        if f"{name}_scale" in variables:
            variables[f"{alias}_scale"] = variables[f"{name}_scale"]


def _string(file: BinaryFile) -> str:
    raw = file.take(file.number("<H"))
    try:
        text = raw.removesuffix(b"\0").decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not raw.endswith(b"\0") or not text.isprintable() or not text:
        raise file.error(f"no name near byte {file.position}")
    return text


def _array(file: BinaryFile) -> np.ndarray:
    """A variable: a new array, float16 and bfloat16 widened to float32."""
    rank = file.number("B")
    if rank > _MAX_RANK:
        raise file.error(f"a variable of {rank} dimensions near byte {file.position}")
    shape = tuple(file.number("<I") for _ in range(rank))
    kind, size = file.number("B"), file.number("<I")
    if kind >= len(_TYPES) or size != math.prod(shape) * np.dtype(_TYPES[kind]).itemsize or 0 in shape:
        raise file.error(f"a variable of type {kind}, shape {shape} and {size} bytes near byte {file.position}")
    value = file.array(_TYPES[kind], shape)
    if kind == _BFLOAT16:
        return (value.astype(np.uint32) << 16).view(np.float32)
    return value.astype(np.float32) if value.dtype == np.float16 else value


def _dequantized(variables: dict[str, np.ndarray], file: BinaryFile) -> dict[str, np.ndarray]:
    """Weights divided by their scales, one per row or one for all, each array once; without the scales."""
    values, done = {}, {}
    for name, value in variables.items():
        if name.endswith("_scale") and name.removesuffix("_scale") in variables:
            continue
        scale = variables.get(f"{name}_scale")
        if scale is not None:
            if (id(value), id(scale)) not in done:
                done[id(value), id(scale)] = _scaled(name, value, scale, file)
            value = done[id(value), id(scale)]
        elif value.ndim and value.dtype != np.float32 and name not in TEXTS:
            raise file.error(f"{show(name)} as {value.dtype} without scales")
        values[name] = value
    return values


def _scaled(name: str, value: np.ndarray, scale: np.ndarray, file: BinaryFile) -> np.ndarray:
    if scale.dtype != np.float32 or scale.shape not in ((), (1,), value.shape[:1]) or not (scale > 0).all():
        raise file.error(f"scales of {show(name)} that do not fit it")
    return value.astype(np.float32) / scale.reshape(-1, *[1] * (value.ndim - 1))


# The first version of the format that has config.json.
_WITH_FILE = 6
# The values of CTranslate2 where config.json has null.
_EPSILON = 1e-5
_TOKENS = dict(zip(TEXTS, ("<unk>", "<s>", "</s>")))
_FLAGS = {"add_source_bos": "with_source_bos", "add_source_eos": "with_source_eos"}
_START, _ITS_OWN = "decoder_start_token", "user_decoder_start_tokens"
VARIABLES = (*_TOKENS, *_FLAGS.values(), "with_target_bos", _ITS_OWN)
"""The variables of older models that are read here."""


@dataclasses.dataclass(frozen=True)
class CTranslate2Config:
    """The special tokens, whether sources end in EOS, and the epsilon of the norms."""

    unk: str
    eos: str
    decoder_start: str
    add_source_eos: bool
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
            f"{name}: expected a token as {_START}. Received: null. A model that takes a first token with "
            "each sentence cannot be imported."
        )
    for field, token in tokens.items():
        if not isinstance(token, str) or not token:
            raise ImportedModelError(f"{name}: expected a token as {field}. Received: {show(token)}.")
    flags = {field: values.get(field, False) for field in _FLAGS}
    for field, flag in flags.items():
        if not isinstance(flag, bool):
            raise ImportedModelError(f"{name}: expected true or false as {field}. Received: {show(flag)}.")
    if flags["add_source_bos"]:
        raise ImportedModelError(
            f"{name}: expected false as add_source_bos. Received: true. Sources that begin with BOS cannot be imported."
        )
    epsilon = _epsilon(values.get("layer_norm_epsilon"), name)
    return CTranslate2Config(tokens["unk_token"], tokens["eos_token"], tokens[_START], flags["add_source_eos"], epsilon)


def _epsilon(value: Any, name: pathlib.Path) -> float:
    if value is None:
        return _EPSILON
    if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
        raise ImportedModelError(f"{name}: expected a number above 0 as layer_norm_epsilon. Received: {show(value)}.")
    return float(value)


def _older(binary: BinaryModel) -> dict:
    """The same settings from the variables of a model that is older than config.json."""
    found = binary.variables
    values: dict[str, Any] = {name: bytes(found[name]).decode("utf-8", "replace") for name in _TOKENS if name in found}
    values |= {field: bool(found[flag].any()) for field, flag in _FLAGS.items() if flag in found}
    if _ITS_OWN in found and found[_ITS_OWN].any():
        values[_START] = None
    elif "with_target_bos" in found and not found["with_target_bos"].any():
        values[_START] = values.get("eos_token", _TOKENS["eos_token"])
    return values
