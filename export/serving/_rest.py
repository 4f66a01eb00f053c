"""TensorFlow Serving's JSON: `:predict` requests to arrays, and responses, status and metadata.

The row form is `{"instances": [...]}`, the columnar form `{"inputs": ...}`; bytes are `{"b64": "..."}`.
What is rejected there is rejected here, with two differences. An unknown name among several `inputs` is an error
(there it is dropped in silence), and an empty list of instances is an empty batch (there it is an error).
"""

import base64
import binascii
import dataclasses
import json

import numpy as np
from google.protobuf import json_format

DEFAULT_SIGNATURE = "serving_default"


class BadRequest(ValueError):
    """A request that is turned away: the message says why, `status` is the HTTP code."""

    status = 400


@dataclasses.dataclass(frozen=True)
class PredictRequest:
    """A request for one signature: arrays by input name, and whether it came as rows or as columns."""

    signature: str
    tensors: dict[str, np.ndarray]
    as_rows: bool


def parse_predict(body: bytes, input_specs_of) -> PredictRequest:
    """Parses the body of a `:predict` request.

    Args:
        body: JSON. Bytes in its strings that are not UTF-8 reach the model as they are.
        input_specs_of: Gives the inputs of a signature (name to TensorSpec), and raises BadRequest for a name it
            does not know.
    """
    document = _parse_json(body)
    name = document.get("signature_name", DEFAULT_SIGNATURE)
    if not isinstance(name, str):
        raise BadRequest(f"'signature_name' has to be a string, but is {_shown(name)}")
    specs = input_specs_of(name or DEFAULT_SIGNATURE)
    if ("instances" in document) == ("inputs" in document):
        found = "both" if "inputs" in document else "neither"
        raise BadRequest(f"expected one of the keys 'instances' and 'inputs' in the request, but found {found}")
    as_rows = "instances" in document
    values = _rows(document["instances"], specs) if as_rows else _columns(document["inputs"], specs)
    tensors = {name: _tensor(name, value, specs[name]) for name, value in values.items()}
    return PredictRequest(name or DEFAULT_SIGNATURE, tensors, as_rows)


def _parse_json(body: bytes) -> dict:
    try:
        document = json.loads(body.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"JSON Parse error: {error or 'nested too deeply'}") from error
    if not isinstance(document, dict):
        raise BadRequest(f"expected a JSON object with 'instances' or 'inputs', but found {_shown(document)}")
    return document


def _rows(instances, specs) -> dict:
    """Values by input name from the row form: a list of values, or a list of objects with every input each."""
    if not isinstance(instances, list):
        raise BadRequest(f"'instances' has to be a list, but is {_shown(instances)}")
    named = [isinstance(row, dict) and not _is_base64(row) for row in instances]
    if not instances:
        return {name: [] for name in specs}
    if not named[0]:
        if len(specs) > 1:
            raise BadRequest(f"'instances' is a plain list, but the inputs {_names(specs)} need a list of objects")
        if any(named):
            raise BadRequest(
                f"expected a value at item {named.index(True)} of 'instances' as at item 0, but found an object"
            )
        return {next(iter(specs)): instances}
    for number, row in enumerate(instances):
        if not named[number]:
            raise BadRequest(
                f"expected an object at item {number} of 'instances' as at item 0, but found {_shown(row)}"
            )
        if row.keys() != specs.keys():
            raise BadRequest(
                f"item {number} of 'instances' has the keys {_names(row)}, but they must be {_names(specs)}"
            )
    return {name: [row[name] for row in instances] for name in specs}


def _columns(inputs, specs) -> dict:
    """Values by input name from the columnar form: one input's value, or an object with every input."""
    if not isinstance(inputs, dict) or _is_base64(inputs):
        if len(specs) > 1:
            raise BadRequest(f"'inputs' is a plain value, but the inputs {_names(specs)} need an object")
        return {next(iter(specs)): inputs}
    missing, extra = sorted(specs.keys() - inputs.keys()), sorted(inputs.keys() - specs.keys())
    if missing:
        raise BadRequest(f"Missing named input: {_names(missing)} in 'inputs'; it has {_names(inputs)}")
    if extra:
        raise BadRequest(f"unknown input {_names(extra)} in 'inputs': the signature has {_names(specs)}")
    return inputs


def _tensor(name: str, value, spec) -> np.ndarray:
    """The array of nested lists, checked against the signature's type and shape."""
    shape = _shape(value)
    if not spec.shape.is_compatible_with(shape):
        if 0 in shape and spec.shape.rank is not None:  # an empty list does not tell the sizes behind its own
            shape = [0, *(size or 0 for size in spec.shape.as_list()[1:])]
        else:
            expected = [-1 if size is None else size for size in spec.shape.as_list()]
            raise BadRequest(f"input {name!r} has to have the shape {expected}, but came with {shape}")
    leaves = []
    try:
        _collect(value, shape, 0, spec.dtype, leaves)
        array = np.empty(len(leaves), dtype=spec.dtype.as_numpy_dtype)
        array[:] = leaves
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"input {name!r}: {error}") from error
    return array.reshape(shape)


def _shape(value) -> list[int]:
    """The shape that nested lists claim, read along their first elements."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return shape


def _collect(value, shape, level: int, dtype, leaves: list) -> None:
    if level == len(shape):
        leaves.append(_leaf(value, dtype))
        return
    if not isinstance(value, list) or len(value) != shape[level]:
        found = f"a list of {len(value)}" if isinstance(value, list) else _shown(value)
        raise BadRequest(
            f"expected a list of {shape[level]} at level {level}, but found {found}: rows must be of one shape"
        )
    for each in value:
        _collect(each, shape, level + 1, dtype, leaves)


def _leaf(value, dtype):
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
        raise BadRequest(f"JSON Value: {_shown(value)} is not of expected type: {dtype.name}")
    return _encode(value) if isinstance(value, str) else value


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")  # a lone "\ud800": not UTF-8, and the model's to replace


def _is_base64(value) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"Unable to base64 decode {_shown(text)}: {error}") from error


def _names(names) -> str:
    return ", ".join(repr(name) for name in sorted(names))


def _shown(value) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 100 else f"{text[:100]}…"


def predict_body(outputs: dict[str, np.ndarray], as_rows: bool) -> dict:
    """The answer to a `:predict` request.

    One output is written without its name. Strings are text, those of an output whose name ends in `_bytes` are
    base64.

    Args:
        outputs: Arrays by output name; for the row form they share dimension 0.
        as_rows: Whether the request had `instances` (the answer has `predictions`) or `inputs` (`outputs`).
    """
    columns = {name: _values(name, array) for name, array in sorted(outputs.items())}
    if not as_rows:
        return {"outputs": next(iter(columns.values())) if len(columns) == 1 else columns}
    sizes = {name: array.shape[0] if array.ndim else None for name, array in outputs.items()}
    if None in sizes.values() or len(set(sizes.values())) != 1:
        raise BadRequest(f"the outputs have the batch sizes {sizes}, which rows cannot hold: ask with 'inputs' instead")
    if len(columns) == 1:
        return {"predictions": next(iter(columns.values()))}
    rows = zip(*columns.values(), strict=True)
    return {"predictions": [dict(zip(columns, row)) for row in rows]}


def status_body(statuses) -> dict:
    """The status of versions, newest first, as `GetModelStatusResponse` in JSON.

    Args:
        statuses: Objects with `version`, `state`, `error_code` and `error_message`.
    """
    return {
        "model_version_status": [
            {
                "version": str(each.version),
                "state": each.state,
                "status": {"error_code": each.error_code, "error_message": each.error_message},
            }
            for each in statuses
        ]
    }


def metadata_body(name: str, version: int, signature_defs) -> dict:
    """The signatures of a version, as `GetModelMetadataResponse` in JSON."""
    signatures = {
        key: json_format.MessageToDict(
            value, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        for key, value in sorted(signature_defs.items())
    }
    return {
        "model_spec": {"name": name, "signature_name": "", "version": str(version)},
        "metadata": {"signature_def": {"signature_def": signatures}},
    }


def error_body(message: str) -> dict:
    """An error, in the form of every error."""
    return {"error": message}


def dumps(body: dict) -> bytes:
    """JSON text. NaN and Infinity are written as such, as TensorFlow Serving does."""
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def _values(name: str, array: np.ndarray):
    if array.dtype == object:
        encode = _base64 if name.endswith("_bytes") else _text
        flat = np.empty(array.size, dtype=object)
        flat[:] = [encode(each) for each in array.reshape(-1)]
        return flat.reshape(array.shape).tolist()
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        # Through text: 0.1 in float32 is to be read as 0.1, not as 0.10000000149.
        return array.astype("U32").astype(np.float64).tolist()
    return array.tolist()


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _base64(value: bytes) -> dict:
    return {"b64": base64.b64encode(value).decode("ascii")}
