"""Responses in TensorFlow Serving's JSON: predictions, the status and the metadata of a model, errors."""

import base64
import json

import numpy as np
from google.protobuf import json_format

from tf_transformer.export.rest_request import BadRequest


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
