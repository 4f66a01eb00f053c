import io

import pytest

from tf_transformer.text._lines import LineTooLongError, as_cell, as_line, chunks, read_lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\n\n\nb\n", [b"a", b"", b"", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\rb\n", [b"a\rb"]),
        ("a\u2028b\x85c\x0bd\x0ce\n".encode(), ["a\u2028b\x85c\x0bd\x0ce".encode()]),
        (b"a\x00b\n\xff\xfe\n", [b"a\x00b", b"\xff\xfe"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [b"a", b"\xef\xbb\xbfb"]),
        (b"\r\na\r", [b"", b"a"]),
    ],
)
def test_only_a_line_feed_ends_a_line(data, lines):
    assert list(read_lines(io.BytesIO(data))) == lines


def test_a_long_line_is_truncated_and_stays_one():
    data = b"a" * 100 + b"\n" + b"b" * 7 + b"\n" + b"c" * 10 + b"\n" + b"d" * 23
    assert list(read_lines(io.BytesIO(data), 10)) == [b"a" * 10, b"b" * 7, b"c" * 10, b"d" * 10]


def test_a_long_line_is_an_error_where_lines_are_not_truncated():
    lines = read_lines(io.BytesIO(b"a" * 9 + b"\n" + b"b" * 10 + b"\n"), 10, truncate=False)
    assert next(lines) == b"a" * 9
    with pytest.raises(LineTooLongError, match="at most 10 bytes"):
        next(lines)


def test_a_carriage_return_may_be_kept():
    assert list(read_lines(io.BytesIO(b"a\r\nb\n"), strip_cr=False)) == [b"a\r", b"b"]


def test_chunks_end_at_either_limit():
    lines = [b"a", b"b", b"c", b"dddd", b"e"]
    assert list(chunks(lines, 2, 100)) == [[b"a", b"b"], [b"c", b"dddd"], [b"e"]]
    assert list(chunks(lines, 100, 3)) == [[b"a", b"b", b"c"], [b"dddd"], [b"e"]]
    assert list(chunks([], 2, 3)) == []


def test_text_stays_one_line_and_one_cell():
    text = "a\nb\rc\u2028d\x85e\x1ef\tg"
    assert as_line(text) == "a b c d e f\tg"
    assert len(as_line(text).splitlines()) == 1
    assert as_cell(text) == "a b c d e f g"
