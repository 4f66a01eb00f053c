"""Shards of a text file: consecutive lines, and the files of their translations."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from itertools import islice

from tf_transformer._beam import LineIndex, file_exists, join, open_file, read_bytes, write_bytes
from tf_transformer.text import MAX_LINE_BYTES, read_lines


@dataclasses.dataclass(frozen=True)
class Shard:
    """Consecutive lines of the input: its number, place in bytes, first line and number of lines."""

    number: int
    offset: int
    first: int
    lines: int

    @classmethod
    def all_of(cls, index: LineIndex) -> "list[Shard]":
        """The shards of a file; none of an empty one."""
        return [
            cls(number, offset, number * index.step, min(index.step, index.lines - number * index.step))
            for number, offset in enumerate(index.offsets)
            if index.lines
        ]

    def read(self, path: str) -> Iterator[bytes]:
        """The lines, a longer one truncated to `MAX_LINE_BYTES`."""
        with open_file(path) as stream:
            # From the line feed before: only at the start of the file is a byte-order mark not text.
            skipped = 1 if self.offset else 0
            stream.seek(self.offset - skipped)
            yield from islice(read_lines(stream, MAX_LINE_BYTES), skipped, skipped + self.lines)


@dataclasses.dataclass(frozen=True)
class TranslatedShard:
    """The translations of a shard's lines, None where the model failed, and whether each line was truncated."""

    shard: Shard
    texts: list[str | None]
    truncated: list[bool]


@dataclasses.dataclass(frozen=True)
class ShardFiles:
    """Files of translated shards: `shard-00000.txt`, and `shard-00000.json` with its facts, written after it.

    Attributes:
        directory: on a file system that Beam knows.
        keep_truncated: whether the translations of truncated lines are written; if not, their lines are empty.
    """

    directory: str
    keep_truncated: bool = True

    def path(self, number: int, suffix: str = "txt") -> str:
        return join(self.directory, f"shard-{number:05d}.{suffix}")

    def facts(self, shard: Shard) -> dict | None:
        """The facts of a shard that is complete; None if it is missing, half-written or damaged."""
        if not file_exists(self.path(shard.number, "json")) or not file_exists(self.path(shard.number)):
            return None
        try:
            facts = json.loads(read_bytes(self.path(shard.number, "json")))
        except ValueError:
            return None
        digest = hashlib.sha256(read_bytes(self.path(shard.number))).hexdigest()
        return facts if (facts.get("sha256"), facts.get("lines")) == (digest, shard.lines) else None

    def write(self, translated: TranslatedShard) -> dict:
        """Write a shard, in which a line that failed is empty; return its facts."""
        shard, rows = translated.shard, list(zip(translated.texts, translated.truncated, strict=True))
        left_out = [text is None or (truncated and not self.keep_truncated) for text, truncated in rows]
        data = "".join("\n" if out else f"{text}\n" for (text, _), out in zip(rows, left_out)).encode()
        facts = {
            "shard": shard.number,
            "lines": shard.lines,
            "sha256": hashlib.sha256(data).hexdigest(),
            "failed": [number for number, (text, _) in enumerate(rows, shard.first + 1) if text is None],
            "truncated": [number for number, (_, truncated) in enumerate(rows, shard.first + 1) if truncated],
        }
        write_bytes(self.path(shard.number), data)
        write_bytes(self.path(shard.number, "json"), json.dumps(facts).encode())
        return facts
