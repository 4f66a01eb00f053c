"""The spool: clean pairs as plain lines on disk, in chunks that worker processes read for themselves.

Cleaning looks at a corpus once and in order; encoding can then be spread over processes without sending text
through pipes, and a corpus that is slow to read is read once.
"""

import dataclasses
import pathlib

from tf_transformer.data.corpus import Pair

CHUNK_PAIRS = 8192


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Some consecutive pairs of a spool: where they lie and which number the first has."""

    path: pathlib.Path
    offset: int
    size: int
    first: int
    pairs: int

    def read(self) -> tuple[list[bytes], list[bytes]]:
        """The sources and the targets."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            lines = file.read(self.size).split(b"\n")
        if len(lines) != 2 * self.pairs + 1:
            raise ValueError(
                f"{self.path}: expected {self.pairs} pairs of lines at byte {self.offset}, found {len(lines) - 1} "
                "lines: a line feed inside a sentence, or a full disk"
            )
        return lines[0:-1:2], lines[1:-1:2]


class Spool:
    """Writes pairs that contain no line feeds, two lines each, and knows its chunks."""

    def __init__(self, path: pathlib.Path, chunk_pairs: int = CHUNK_PAIRS):
        self._path, self._chunk_pairs = path, chunk_pairs
        self._file = path.open("wb")
        self._pending: list[bytes] = []
        self._offset = 0
        self.pairs = 0
        self.chunks: list[Chunk] = []

    def add(self, pair: Pair) -> None:
        self._pending.append(b"%b\n%b\n" % pair)
        if len(self._pending) == self._chunk_pairs:
            self._flush()

    def close(self) -> None:
        if self._pending:
            self._flush()
        self._file.close()

    def _flush(self) -> None:
        data, count = b"".join(self._pending), len(self._pending)
        self._file.write(data)
        self.chunks.append(Chunk(self._path, self._offset, len(data), self.pairs, count))
        self._offset += len(data)
        self.pairs += count
        self._pending.clear()
