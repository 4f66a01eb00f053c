"""What CTranslate2 has to know of a model beside its weights: config.json or, in older models, variables."""

import dataclasses
import math
import pathlib

from tf_transformer.importing.binary_model import TEXTS, BinaryModel
from tf_transformer.importing.foreign_files import read_json
from tf_transformer.importing.foreign_model import ImportedModelError

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
    """The settings of a model directory; what we have no part for is refused by its name."""
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
