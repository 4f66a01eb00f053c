"""Shards of a text file: batches of lines of similar length in, files of translated lines out."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import islice

from tf_transformer._beam import file_exists, join, open_file, read_bytes, write_bytes
from tf_transformer.decoding._batching import length_batches, text_batch_size
from tf_transformer.text import MAX_LINE_BYTES, chunks, read_lines

# Lines among which those of similar length are batched, as `translate` does on one machine.
_CHUNK_LINES, _CHUNK_BYTES = 4096, 4 << 20


@dataclasses.dataclass(frozen=True)
class TextBatch:
    """Lines of similar length of one shard, with their places in it."""

    shard: int
    places: list[int]
    texts: list[bytes]


@dataclasses.dataclass(frozen=True)
class TranslatedBatch:
    """The translations of a `TextBatch`; None for a line that the model failed on."""

    shard: int
    places: list[int]
    texts: list[str | None]
    truncated: list[bool]


@dataclasses.dataclass(frozen=True)
class Shard:
    """Consecutive lines of the input: its number, place in bytes, first line and number of lines."""

    number: int
    offset: int
    first: int
    lines: int

    def read(self, path: str) -> Iterator[bytes]:
        """The lines, a longer one truncated to `MAX_LINE_BYTES`."""
        with open_file(path) as stream:
            # From the line feed before: only at the start of the file is a byte-order mark not text.
            skipped = 1 if self.offset else 0
            stream.seek(self.offset - skipped)
            yield from islice(read_lines(stream, MAX_LINE_BYTES), skipped, skipped + self.lines)


@dataclasses.dataclass(frozen=True)
class ShardReader:
    """From a shard to its batches.

    Attributes:
        path: the input.
    """

    path: str

    def __call__(self, shard: Shard) -> Iterator[TextBatch]:
        first = 0
        for chunk in chunks(shard.read(self.path), _CHUNK_LINES, _CHUNK_BYTES):
            for batch in length_batches([len(line) for line in chunk], text_batch_size):
                yield TextBatch(shard.number, [first + i for i in batch], [chunk[i] for i in batch])
            first += len(chunk)


@dataclasses.dataclass(frozen=True)
class ShardFiles:
    """Files of translated shards: `shard-00000.txt`, and `shard-00000.json` with its facts, written after it.

    Attributes:
        directory: on a file system that Beam knows.
    """

    directory: str

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

    def write(self, shard: Shard, batches: Iterable[TranslatedBatch]) -> dict:
        """Write a shard from its batches, in any order; a line that failed is empty. Return its facts."""
        lines: list[str | None] = [None] * shard.lines
        truncated = []
        for batch in batches:
            for place, text, cut in zip(batch.places, batch.texts, batch.truncated, strict=True):
                lines[place] = text
                truncated += [shard.first + place + 1] if cut else []
        data = "".join(f"{line or ''}\n" for line in lines).encode()
        facts = {
            "shard": shard.number,
            "lines": shard.lines,
            "sha256": hashlib.sha256(data).hexdigest(),
            "failed": [shard.first + place + 1 for place, line in enumerate(lines) if line is None],
            "truncated": sorted(truncated),
        }
        write_bytes(self.path(shard.number), data)
        write_bytes(self.path(shard.number, "json"), json.dumps(facts).encode())
        return facts
