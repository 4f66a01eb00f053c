"""TensorFlow Serving's `:predict` requests, from JSON to arrays.

The row form is `{"instances": [...]}`, the columnar form `{"inputs": ...}`; bytes are `{"b64": "..."}`.
What TensorFlow Serving rejects is rejected here, with two differences. An unknown name among several `inputs` is an
error (TensorFlow Serving ignores it), and an empty list of instances is an empty batch (TensorFlow Serving: an error).
"""

import base64
import binascii
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tf_transformer.export.serving._errors import BadRequest
from tf_transformer.export.serving._json import parse_object, shown

DEFAULT_SIGNATURE = "serving_default"
MAX_ROWS = 1024
VALUES_PER_ROW = 64
"""Values in a request per row that it may have: several inputs, and inputs with more than one dimension."""


@dataclasses.dataclass(frozen=True)
class PredictRequest:
    """A request for one signature: arrays by input name, and whether it came as rows or as columns."""

    signature: str
    tensors: dict[str, np.ndarray]
    as_rows: bool


def parse_predict(
    body: bytes, input_specs_of: Callable[[str], Mapping[str, Any]], max_rows: int = MAX_ROWS
) -> PredictRequest:
    """Parse the body of a `:predict` request.

    Args:
        body: JSON. Bytes in its strings that are not UTF-8 reach the model as they are.
        input_specs_of: Gives the inputs of a signature (name to TensorSpec), and raises BadRequest for a name it
            does not know.
        max_rows: Largest number of rows, checked before they are converted.
    """
    document = parse_object(body, VALUES_PER_ROW * max_rows)
    name = document.get("signature_name", DEFAULT_SIGNATURE)
    if not isinstance(name, str):
        raise BadRequest(f"expected a string as 'signature_name'. Received: {shown(name)}")
    specs = input_specs_of(name or DEFAULT_SIGNATURE)
    if ("instances" in document) == ("inputs" in document):
        found = "both" if "inputs" in document else "neither"
        raise BadRequest(f"expected one of the keys 'instances' and 'inputs'. Received: {found}")
    as_rows = "instances" in document
    if as_rows:
        _check_rows("instances", document["instances"], max_rows)
        values = _rows(document["instances"], specs)
    else:
        values = _columns(document["inputs"], specs)
        for key, value in values.items():
            _check_rows(key, value, max_rows)
    tensors = {name: _tensor(name, value, specs[name]) for name, value in values.items()}
    return PredictRequest(name or DEFAULT_SIGNATURE, tensors, as_rows)


def _check_rows(name: str, value: Any, max_rows: int) -> None:
    if isinstance(value, list) and len(value) > max_rows:
        raise BadRequest(f"expected at most {max_rows} rows in a request. Received: {name!r} with {len(value)} rows")


def _rows(instances: Any, specs: Mapping[str, Any]) -> dict:
    """Values by input name from the row form: a list of values, or a list of objects with every input each."""
    if not isinstance(instances, list):
        raise BadRequest(f"expected a list as 'instances'. Received: {shown(instances)}")
    named = [isinstance(row, dict) and not _is_base64(row) for row in instances]
    if not instances:
        return {name: [] for name in specs}
    if not named[0]:
        if len(specs) > 1:
            raise BadRequest(f"expected a list of objects with {_names(specs)} as 'instances'. Received: a plain list")
        if any(named):
            raise BadRequest(f"expected a value at item {named.index(True)} of 'instances'. Received: an object")
        return {next(iter(specs)): instances}
    for number, row in enumerate(instances):
        if not named[number]:
            raise BadRequest(f"expected an object at item {number} of 'instances'. Received: {shown(row)}")
        if row.keys() != specs.keys():
            raise BadRequest(
                f"expected the keys {_names(specs)} at item {number} of 'instances'. Received: {_names(row)}"
            )
    return {name: [row[name] for row in instances] for name in specs}


def _columns(inputs: Any, specs: Mapping[str, Any]) -> dict:
    """Values by input name from the columnar form: one input's value, or an object with every input."""
    if not isinstance(inputs, dict) or _is_base64(inputs):
        if len(specs) > 1:
            raise BadRequest(f"expected an object with {_names(specs)} as 'inputs'. Received: a plain value")
        return {next(iter(specs)): inputs}
    missing, extra = sorted(specs.keys() - inputs.keys()), sorted(inputs.keys() - specs.keys())
    if missing:
        raise BadRequest(f"Missing named input: {_names(missing)} in 'inputs'. Received: {_names(inputs)}")
    if extra:
        raise BadRequest(f"expected only {_names(specs)} in 'inputs'. Received: {_names(extra)} too")
    return inputs


def _tensor(name: str, value: Any, spec: Any) -> np.ndarray:
    """The array of nested lists, checked against the signature's type and shape."""
    shape = _shape(value)
    if not spec.shape.is_compatible_with(shape):
        if 0 in shape and spec.shape.rank > 0:  # the sizes of further dimensions are unknown
            shape = [0, *(size or 0 for size in spec.shape.as_list()[1:])]
        else:
            expected = [-1 if size is None else size for size in spec.shape.as_list()]
            raise BadRequest(f"expected shape {expected} for input {name!r}. Received: shape {shape}")
    leaves: list = []
    try:
        _collect(value, shape, 0, spec.dtype, leaves)
        array = np.empty(len(leaves), dtype=spec.dtype.as_numpy_dtype)
        array[:] = leaves
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"input {name!r}: {error}") from error
    return array.reshape(shape)


def _shape(value: Any) -> list[int]:
    """The shape that nested lists claim, read along their first elements."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return shape


def _collect(value: Any, shape: list[int], level: int, dtype: Any, leaves: list) -> None:
    if level == len(shape):
        leaves.append(_leaf(value, dtype))
        return
    if not isinstance(value, list) or len(value) != shape[level]:
        found = f"a list of {len(value)}" if isinstance(value, list) else shown(value)
        raise BadRequest(f"expected a list of {shape[level]} at level {level}, as in the first row. Received: {found}")
    for each in value:
        _collect(each, shape, level + 1, dtype, leaves)


def _leaf(value: Any, dtype: Any) -> Any:
    if dtype == "string":
        if _is_base64(value):
            return _decode_base64(value["b64"])
        fits = isinstance(value, str)
    elif dtype == "bool":
        fits = isinstance(value, bool)
    else:
        kinds = int if dtype.is_integer else (int, float)
        fits = isinstance(value, kinds) and not isinstance(value, bool)
    if not fits:
        raise BadRequest(f"JSON Value: {shown(value)} is not of expected type: {dtype.name}")
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _decode_base64(text: str) -> bytes:
    """Decode base64 as TensorFlow Serving does: white space is skipped, and padding may be missing."""
    compact = re.sub(r"[ \t\n\v\f\r]", "", text)
    if not compact.endswith("="):
        compact += "=" * (-len(compact) % 4)
    try:
        return base64.b64decode(compact, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"Unable to base64 decode {shown(text)}: {error}") from error


def _names(names: Iterable[str]) -> str:
    """Names as they appear in an error message, truncated."""
    found = sorted(names)
    return ", ".join(repr(name[:50]) for name in found[:10]) + (", …" if len(found) > 10 else "")
