"""Lines of text as bytes: whatever bytes come, as many lines go out as came in."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

MAX_LINE_BYTES = 1 << 20
"""Of a longer line only so much is kept: many times what any model reads of a sentence."""

_UTF8_MARK = b"\xef\xbb\xbf"
# All that some program takes for the end of a line, which ours must not put into one.
_LINE_ENDS = {ord(mark): " " for mark in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
_CELL_ENDS = _LINE_ENDS | {ord("\t"): " "}


def read_lines(stream: BinaryIO, max_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """The lines of a binary stream, without their ends, in memory bounded by `max_bytes`.

    Only a line feed ends a line, and a carriage return before it belongs to the end; any other byte is text. A last
    line without a line feed counts. A byte-order mark at the start is dropped. What a line has beyond `max_bytes`
    is skipped.
    """
    first = True
    while line := stream.readline(max_bytes):
        rest = line
        while not rest.endswith(b"\n") and (rest := stream.readline(max_bytes)):
            pass
        if first:
            line, first = line.removeprefix(_UTF8_MARK), False
        yield line.removesuffix(b"\n").removesuffix(b"\r")


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
