"""TensorFlow Serving's JSON answers: predictions, status and metadata.

Predictions are written some rows at a time: the text of `attention` is many times larger than its arrays. orjson
writes their numbers, straight from the arrays.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from google.protobuf import json_format

from tf_transformer.export.serving._errors import BadRequest

if TYPE_CHECKING:
    from tf_transformer.export.serving._models import VersionStatus

VALUES_AT_A_TIME = 65_536


def predict_body(outputs: dict[str, np.ndarray], as_rows: bool) -> Iterator[bytes]:
    """Write the answer to a `:predict` request, in parts.

    One output is written without its name. Strings are text, those of an output whose name ends in `_bytes` are
    base64.

    Args:
        outputs: Arrays by output name; for the row form they share dimension 0.
        as_rows: Whether the request had `instances` (the answer has `predictions`) or `inputs` (`outputs`).
    """
    if as_rows:
        return _row_parts(outputs)
    return _column_parts(outputs)


def _row_parts(outputs: dict[str, np.ndarray]) -> Iterator[bytes]:
    sizes = {name: array.shape[0] if array.ndim else None for name, array in outputs.items()}
    if None in sizes.values() or len(set(sizes.values())) != 1:
        raise BadRequest(f"expected outputs of one batch size. Received: {sizes}. Send 'inputs' instead of 'instances'")
    return _wrapped(b'{"predictions": [', _slices(outputs), b"]}")


def _column_parts(outputs: dict[str, np.ndarray]) -> Iterator[bytes]:
    names = sorted(outputs)
    if len(names) == 1:
        yield b'{"outputs": '
        yield from _array_parts(names[0], outputs[names[0]])
        yield b"}"
        return
    opening = b'{"outputs": {'
    for name in names:
        yield opening + dumps(name) + b": "
        yield from _array_parts(name, outputs[name])
        opening = b", "
    yield b"}}"


def _array_parts(name: str, array: np.ndarray) -> Iterator[bytes]:
    if array.ndim == 0:
        return iter([_text_of({name: array[None]})[1:-1]])
    return _wrapped(b"[", _slices({name: array}), b"]")


def _wrapped(opening: bytes, lists: Iterator[bytes], closing: bytes) -> Iterator[bytes]:
    """One JSON list out of the elements of several, between two pieces of text."""
    for text in lists:
        yield opening + text[1:-1]
        opening = b", "
    yield (closing if opening == b", " else opening + closing)


def _slices(outputs: dict[str, np.ndarray]) -> Iterator[bytes]:
    """JSON lists of the rows of arrays with one batch size, some at a time."""
    rows = next(iter(outputs.values())).shape[0]
    values = sum(array.size for array in outputs.values())
    step = max(1, VALUES_AT_A_TIME * rows // max(values, 1))
    for start in range(0, rows, step):
        yield _text_of({name: array[start : start + step] for name, array in sorted(outputs.items())})


def _text_of(arrays: dict[str, np.ndarray]) -> bytes:
    """The JSON list of the rows of arrays: values where there is one output, else objects."""
    finite = all(array.dtype.kind != "f" or np.isfinite(array).all() for array in arrays.values())
    columns = {name: _values(name, array, finite) for name, array in arrays.items()}
    if len(columns) == 1:
        rows = next(iter(columns.values()))
    else:
        rows = [dict(zip(columns, row)) for row in zip(*columns.values(), strict=True)]
    # orjson writes null for NaN and Infinity.
    return orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY) if finite else dumps(rows)


def status_body(statuses: "Iterable[VersionStatus]") -> dict:
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


def metadata_body(name: str, version: int, signature_defs: Mapping[str, Any]) -> dict:
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


def dumps(body: Any) -> bytes:
    """JSON text. NaN and Infinity are written as such, as TensorFlow Serving does."""
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def _values(name: str, array: np.ndarray, as_array: bool) -> list | np.ndarray:
    """The values as lists, or where `as_array` as an array of a type that orjson writes."""
    if array.dtype == object:
        encode = _base64 if name.endswith("_bytes") else _text
        flat = np.empty(array.size, dtype=object)
        flat[:] = [encode(each) for each in array.reshape(-1)]
        return flat.reshape(array.shape).tolist()
    if as_array and array.dtype.kind in "fiub" and array.dtype != np.float16:
        return np.ascontiguousarray(array)
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        # Through text: 0.1 in float32 is to be read as 0.1, not as 0.10000000149.
        return array.astype("U32").astype(np.float64).tolist()
    return array.tolist()


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _base64(value: bytes) -> dict:
    return {"b64": base64.b64encode(value).decode("ascii")}
