"""Lines of one text file, plain, gzipped or xz-compressed, as bytes and in bounded memory."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tf_transformer.data.corpus import CorpusError

_BLOCK = 1 << 20
# A longer line is no sentence but a sign of binary data; reading on would need memory without bound.
MAX_LINE_BYTES = 64 << 20

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_OPENERS = {".gz": gzip.open, ".xz": lzma.open}
_MAGIC = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00"}


class LineFile:
    """The lines of a text file without their line feeds; every `iter()` starts at the first line.

    Only a line feed ends a line: a carriage return before it stays (cleaning removes and counts it), and U+2028 or
    a form feed inside a sentence split nothing. A byte-order mark of UTF-8 is dropped. Bytes are not decoded here.

    Args:
        path: the file; `.gz` and `.xz` are decompressed on the way.

    Raises:
        CorpusError: naming the file, and the line where there is one, if it is missing, empty, truncated, not what
            its ending says, or UTF-16.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._check_start()

    def __iter__(self) -> Iterator[bytes]:
        number = 0
        rest = b""
        for block in self._blocks():
            lines = (rest + block).split(b"\n")
            rest = lines.pop()
            yield from lines
            number += len(lines)
            if len(rest) > MAX_LINE_BYTES:
                raise CorpusError(
                    f"{self.path}, line {number + 1}: expected lines of text, got more than {MAX_LINE_BYTES} bytes "
                    "without a line feed; give a text file with one sentence a line."
                )
        if rest:
            yield rest

    def count(self) -> int:
        """The number of lines; a last line without a line feed counts."""
        lines, last = 0, b"\n"
        for block in self._blocks():
            lines += block.count(b"\n")
            last = block[-1:]
        return lines + (last != b"\n")

    def identity(self) -> dict[str, object]:
        """Name, size and sha256 of the file as it lies on disk."""
        digest = hashlib.sha256()
        with self.path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return {"name": self.path.name, "bytes": self.path.stat().st_size, "sha256": digest.hexdigest()}

    def _check_start(self) -> None:
        """Refuses what cannot be read at all before any work starts."""
        if not self.path.is_file():
            what = "a directory" if self.path.is_dir() else "nothing"
            raise CorpusError(f"{self.path}: expected a text file, found {what} there; check the path.")
        suffix = self.path.suffix.lower()
        with self.path.open("rb") as file:
            start = file.read(6)
        if start and suffix in _MAGIC and not start.startswith(_MAGIC[suffix]):
            raise CorpusError(
                f"{self.path}: expected {suffix[1:]} data after the name's ending, the file starts with {start!r}; "
                "rename it if it is plain text, or fetch it again."
            )
        text = next(self._blocks(), b"") if start else b""
        if not text:
            raise CorpusError(f"{self.path}: expected one sentence a line, the file is empty.")
        if text[:2] in _UTF16_MARKS:
            raise CorpusError(f"{self.path}: expected UTF-8, found UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`.")

    def _open(self) -> BinaryIO:
        return _OPENERS.get(self.path.suffix.lower(), open)(self.path, "rb")

    def _blocks(self) -> Iterator[bytes]:
        line = 1  # of the block being read, for the message of a damaged archive
        try:
            with self._open() as file:
                block = file.read(_BLOCK).removeprefix(_UTF8_MARK)
                while block:
                    yield block
                    line += block.count(b"\n")
                    block = file.read(_BLOCK)
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise CorpusError(
                f"{self.path}, after line {line}: the compressed file is truncated or damaged ({error}); "
                "fetch or compress it again."
            ) from error
