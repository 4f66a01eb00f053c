"""JSON requests, parsed as TensorFlow Serving's RapidJSON parses them, within bounds.

Python's parser does the work. What differs from RapidJSON is handled here: a byte-order mark and text after the
document are ignored, the first of two equal keys wins, and a lone surrogate (`"\\ud800"`) is an error. Nesting and the
number of values are counted before anything is converted, because ten million empty strings fit into 30 MB.
"""

import json
import re
import zlib
from typing import Any

from tf_transformer.export.serving._errors import BadRequest, TooLarge

MAX_DEPTH = 32

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# A string (its contents are skipped) or a character that opens, closes or separates values.
_STRUCTURE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{},]', re.DOTALL)
_ANY_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def inflate(body: bytes, limit: int) -> bytes:
    """The contents of a gzip body; raises TooLarge as soon as they exceed `limit` bytes."""
    found = bytearray()
    while body:
        stream = zlib.decompressobj(wbits=31)
        try:
            found += stream.decompress(body, limit + 1 - len(found))
        except zlib.error as error:
            raise BadRequest(f"the body of the request cannot be inflated: {error}") from error
        if len(found) > limit:
            raise TooLarge(f"the request is larger than {limit} bytes when inflated: send fewer rows")
        if not stream.eof:
            raise BadRequest("the body of the request cannot be inflated: it is incomplete")
        body = stream.unused_data
    return bytes(found)


def parse_object(body: bytes, max_values: int) -> dict:
    """Parse a JSON object of at most `max_values` values.

    Bytes in strings that are not UTF-8 become surrogates (`surrogateescape`), so that they can reach the model
    unchanged.
    """
    body = body.removeprefix(_BYTE_ORDER_MARK)
    _check_bounds(body, max_values)
    _check_surrogates(body)
    try:
        text = body.decode("utf-8", "surrogateescape")
        document, _ = _DECODER.raw_decode(text, len(text) - len(text.lstrip(" \t\n\r")))
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"JSON Parse error: {error}") from error
    if not isinstance(document, dict):
        raise BadRequest(f"expected a JSON object with 'instances' or 'inputs'. Received: {shown(document)}")
    return document


def _check_bounds(body: bytes, max_values: int) -> None:
    """Reject deep nesting and too many values. Ends where the first document ends."""
    depth = values = 0
    for match in _STRUCTURE.finditer(body):
        start = body[match.start()]
        if start in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise BadRequest(f"JSON Parse error: nested deeper than {MAX_DEPTH} levels")
        elif start in b"]}":
            depth -= 1
            if depth <= 0:
                return
        elif start in b",":
            values += 1
            if values > max_values:
                raise BadRequest(f"expected at most {max_values} values in a request. Received: more. Send fewer rows")


def _check_surrogates(body: bytes) -> None:
    """Reject escapes of half a character, which are not text."""
    if not _ANY_SURROGATE.search(body):
        return
    high_ends_at = None
    for match in _ESCAPE.finditer(body):
        code = int(match[1], 16) if match[1] else 0
        if high_ends_at is not None and not (match.start() == high_ends_at and 0xDC00 <= code <= 0xDFFF):
            break
        if 0xDC00 <= code <= 0xDFFF and high_ends_at is None:
            break
        high_ends_at = match.end() if 0xD800 <= code <= 0xDBFF else None
    else:
        if high_ends_at is None:
            return
    raise BadRequest("JSON Parse error: The surrogate pair in string is invalid.")


def _first_wins(pairs: list[tuple[str, object]]) -> dict:
    found: dict[str, object] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_first_wins)


def shown(value: Any) -> str:
    """A value as it appears in an error message, truncated."""
    text = json.dumps(_start(value), ensure_ascii=True)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _start(value: Any) -> Any:
    """The first few elements of a value: enough for a message about a value of any size."""
    if isinstance(value, list):
        return [_start(each) for each in value[:5]]
    if isinstance(value, dict):
        return {key[:101]: _start(value[key]) for key in list(value)[:5]}
    return value[:101] if isinstance(value, str) else value
