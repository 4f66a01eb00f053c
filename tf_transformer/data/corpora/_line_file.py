"""The lines of a text file, plain, gzip or xz, checked before they are read."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tf_transformer._files import sha256_of_file
from tf_transformer.data.corpora._corpus import CorpusError
from tf_transformer.text import LineTooLongError, read_lines

# A longer line is no sentence but a sign of binary data; reading on would need memory without bound.
MAX_LINE_BYTES = 64 << 20

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
_MAGIC = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00"}
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


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

    @classmethod
    def of(cls, path: str | Path | LineFile) -> LineFile:
        """The file of a path, or one that is open already."""
        return path if isinstance(path, LineFile) else cls(path)

    def __iter__(self) -> Iterator[bytes]:
        number = 0
        try:
            with self._open() as file:
                for line in read_lines(file, MAX_LINE_BYTES, truncate=False, strip_cr=False):
                    yield line
                    number += 1
        except LineTooLongError as error:
            raise CorpusError(
                f"{self.path}, line {number + 1}: expected lines of text. Received: more than {MAX_LINE_BYTES} bytes "
                "without a line feed. Give a text file with one sentence per line."
            ) from error
        except _DAMAGE as error:
            raise self._damaged(error, number) from error

    def count(self) -> int:
        """The number of lines; a last line without a line feed counts."""
        return sum(1 for _ in self)

    def identity(self) -> dict[str, object]:
        """Name, size and SHA-256 of the file on disk."""
        return {"name": self.path.name, "bytes": self.path.stat().st_size, "sha256": sha256_of_file(self.path)}

    def _check_start(self) -> None:
        """Reject unreadable files before any work starts."""
        if not self.path.is_file():
            what = "a directory" if self.path.is_dir() else "nothing"
            raise CorpusError(f"{self.path}: expected a text file. Received: {what}. Check the path.")
        suffix = self.path.suffix.lower()
        with self.path.open("rb") as file:
            start = file.read(6)
        if start and suffix in _MAGIC and not start.startswith(_MAGIC[suffix]):
            raise CorpusError(
                f"{self.path}: expected {suffix[1:]} data as in the name. Received: a file that starts with {start!r}. "
                "Rename it if it is plain text, or fetch it again."
            )
        text = self._read_start() if start else b""
        if not text:
            raise CorpusError(f"{self.path}: expected one sentence per line. Received: an empty file.")
        if text[:2] in _UTF16_MARKS:
            raise CorpusError(
                f"{self.path}: expected UTF-8. Received: UTF-16. Convert it with `iconv -f UTF-16 -t UTF-8`."
            )

    def _open(self) -> BinaryIO:
        opener = OPENERS.get(self.path.suffix.lower(), open)
        return opener(self.path, "rb")

    def _read_start(self) -> bytes:
        try:
            with self._open() as file:
                return file.read(len(_UTF8_MARK) + 2).removeprefix(_UTF8_MARK)
        except _DAMAGE as error:
            raise self._damaged(error, 0) from error

    def _damaged(self, error: Exception, lines: int) -> CorpusError:
        return CorpusError(
            f"{self.path}, after line {lines}: the compressed file is truncated or damaged ({error}); "
            "fetch or compress it again."
        )
