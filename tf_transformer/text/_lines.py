"""Line reader, and text on one line: as many lines are written as were read, whatever bytes they contain."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

MAX_LINE_BYTES = 1 << 20
"""Bytes kept of a longer line: many times what any model reads of a sentence."""

_UTF8_MARK = b"\xef\xbb\xbf"
# Characters that some programs read as the end of a line; no line that we write contains them.
_LINE_ENDS = {ord(mark): " " for mark in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
_CELL_ENDS = _LINE_ENDS | {ord("\t"): " "}


class LineTooLongError(ValueError):
    """A line beyond the limit, where lines are not truncated."""


def read_lines(
    stream: BinaryIO, max_bytes: int = MAX_LINE_BYTES, *, truncate: bool = True, strip_cr: bool = True
) -> Iterator[bytes]:
    """The lines of a binary stream, without their ends, in memory bounded by `max_bytes`.

    Only a line feed ends a line; any other byte is text. A last line without a line feed counts. A byte-order mark at
    the start is dropped.

    Args:
        max_bytes: of a line.
        truncate: whether the rest of a longer line is skipped. False: LineTooLongError.
        strip_cr: whether a carriage return before the line feed belongs to the end of the line.
    """
    first = True
    while line := stream.readline(max_bytes):
        if len(line) == max_bytes and not line.endswith(b"\n"):
            if not truncate:
                raise LineTooLongError(f"Expected lines of at most {max_bytes} bytes. Received: a longer one.")
            _skip_line(stream, max_bytes)
        if first:
            line, first = line.removeprefix(_UTF8_MARK), False
        line = line.removesuffix(b"\n")
        yield line.removesuffix(b"\r") if strip_cr else line


def _skip_line(stream: BinaryIO, max_bytes: int) -> None:
    while (rest := stream.readline(max_bytes)) and not rest.endswith(b"\n"):
        pass


def chunks(lines: Iterable[bytes], max_lines: int, max_bytes: int) -> Iterator[list[bytes]]:
    """The lines in lists of at most `max_lines`, which end once they hold `max_bytes`."""
    chunk, size = [], 0
    for line in lines:
        chunk.append(line)
        size += len(line)
        if len(chunk) >= max_lines or size >= max_bytes:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def as_line(text: str) -> str:
    """Text that stays one line for every reader: characters that end lines become spaces."""
    return text.translate(_LINE_ENDS)


def as_cell(text: str) -> str:
    """Text that stays one cell of a table with tabs between columns."""
    return text.translate(_CELL_ENDS)
