"""JSON within bounds, compared with Python's own parser on arbitrary documents."""

import gzip
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.export.serving._errors import BadRequest, TooLarge
from tf_transformer.export.serving._json import MAX_DEPTH, inflate, parse_object, shown

pytestmark = pytest.mark.long

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


@settings(derandomize=True, deadline=None)
@given(st.dictionaries(TEXT, VALUES), st.booleans())
def test_documents_are_what_python_reads(document, ascii_only):
    body = json.dumps(document, ensure_ascii=ascii_only).encode()
    assert parse_object(body, 10_000) == document
    assert parse_object(b"\xef\xbb\xbf \n" + body + b" rest ]", 10_000) == document


@settings(derandomize=True, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_parsed_or_rejected(body):
    for prefix in (b"", b'{"instances": ['):
        try:
            assert isinstance(parse_object(prefix + body, 50), dict)
        except BadRequest as error:
            assert str(error)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.sampled_from(["\\ud83d", "\\ude00", "\\u0041", "\\n", "\\\\", "x", "ud800"])))
def test_surrogates_are_rejected_exactly_where_python_reads_half_a_character(pieces):
    text = "".join(pieces)
    half = any("\ud800" <= each <= "\udfff" for each in json.loads(f'"{text}"'))
    try:
        parse_object(f'{{"a": "{text}"}}'.encode(), 10)
        assert not half
    except BadRequest:
        assert half


def nested(depth):
    return b'{"a": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def test_depth():
    assert parse_object(nested(MAX_DEPTH), 10)
    for depth in (MAX_DEPTH + 1, 974, 100_000):
        with pytest.raises(BadRequest, match="nested deeper than 32 levels"):
            parse_object(nested(depth), 10)


@pytest.mark.parametrize(
    "value", [b"[" + b"5," * 40 + b"5]", b"[" + b"[]," * 40 + b"5]", b'{"b": [' + b"0," * 40 + b"0]}"]
)
def test_values_are_counted(value):
    body = b'{"a": ' + value + b"}"
    assert parse_object(body, 40)
    with pytest.raises(BadRequest, match="at most 39 values"):
        parse_object(body, 39)


def test_commas_in_text_do_not_count():
    assert parse_object(json.dumps({"a": ',",\\"[{' * 1000}).encode(), 1)


def test_ten_million_rows_are_rejected_without_reading_them():
    body = b'{"instances": [' + b'"",' * 10_000_000 + b'""]}'
    with pytest.raises(BadRequest, match="at most 65536 values"):
        parse_object(body, 65536)


def test_inflate():
    text = b"some text " * 1000
    assert inflate(gzip.compress(text), 10_000) == text
    assert inflate(gzip.compress(text[:9]) + gzip.compress(text[9:]), 10_000) == text
    with pytest.raises(TooLarge, match="larger than 9999 bytes when inflated"):
        inflate(gzip.compress(text), 9_999)
    with pytest.raises(TooLarge):
        inflate(gzip.compress(text[:9_000]) + gzip.compress(text[9_000:]), 9_999)


@pytest.mark.parametrize("change", [lambda data: data[:-5], lambda data: b"x" + data, lambda data: data + b"x"])
def test_damaged_gzip(change):
    with pytest.raises(BadRequest, match="cannot be inflated"):
        inflate(change(gzip.compress(b"some text")), 1000)


@settings(derandomize=True, deadline=None)
@given(VALUES)
def test_values_in_messages_are_short(value):
    assert len(shown(value)) <= 101


def test_large_values_in_messages_are_short():
    assert re.fullmatch(r'\["a+…', shown(["a" * 10_000_000] * 1000))
    assert shown({"k" * 1000: 5}).endswith("…")
