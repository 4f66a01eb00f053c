"""A corpus of text files on any file system that Apache Beam knows, indexed by Beam workers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from tf_transformer._beam import BeamJobs, LineIndex, file_exists, find_files, index_lines, open_file
from tf_transformer.data.corpora._corpus import Corpus, CorpusError, Split
from tf_transformer.data.corpora._line_file import MAX_LINE_BYTES, OPENERS, LineFile, line_too_long
from tf_transformer.data.corpora._text_files import (
    Files,
    ParallelFiles,
    TabbedFile,
    WeightedFiles,
    expand,
    open_text_files,
)
from tf_transformer.text import LineTooLongError, read_lines

BLOCK_LINES = 32_768
"""Lines that a worker cleans at a time."""


@dataclasses.dataclass(frozen=True)
class BeamPath:
    """Path of a file on one of Beam's file systems, as far as `LineFile` needs one."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        return self.text.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    def is_file(self) -> bool:
        return file_exists(self.text) and not self.is_dir()

    def is_dir(self) -> bool:
        return Path(self.text).is_dir()

    def open(self, _mode: str = "rb") -> BinaryIO:
        return open_file(self.text)


class BeamFile(LineFile):
    """Lines of a file on one of Beam's file systems, with its index.

    Args:
        path: the file; `.gz` and `.xz` are decompressed on the way, by a single worker.
        block_lines: lines of a block.
    """

    def __init__(self, path: str, block_lines: int = BLOCK_LINES):
        self.path: Any = BeamPath(path)
        self._check_start()
        self.index: LineIndex = index_lines(path, block_lines)
        self.compressed = self.path.suffix.lower() in OPENERS
        self._lines = super().count() if self.compressed else self.index.lines

    def count(self) -> int:
        return self._lines

    def identity(self) -> dict[str, object]:
        return {"name": self.path.name, "bytes": self.index.size, "sha256": self.index.sha256}

    def blocks(self) -> list[FileBlock]:
        """The lines in blocks, each of which is read on its own."""
        step = self.index.step
        return [
            FileBlock(self.path.text, offset, number * step, min(step, self._lines - number * step))
            for number, offset in enumerate(self.index.offsets)
        ]

    def _open(self) -> BinaryIO:
        opener = OPENERS.get(self.path.suffix.lower())
        return opener(self.path.open(), "rb") if opener else self.path.open()


@dataclasses.dataclass(frozen=True)
class FileBlock:
    """Consecutive lines of a file that is not compressed: `lines` of them from line `first` on, at `offset` bytes."""

    file: str
    offset: int
    first: int
    lines: int

    @property
    def path(self) -> str:
        """Name in messages."""
        return f"{self.file} from line {self.first + 1}"

    def count(self) -> int:
        return self.lines

    def __iter__(self) -> Iterator[bytes]:
        with open_file(self.file) as stream:
            # From the line feed before: only at the start of the file is a byte-order mark not text.
            skipped = 1 if self.offset else 0
            stream.seek(self.offset - skipped)
            lines = read_lines(stream, MAX_LINE_BYTES, truncate=False, strip_cr=False)
            number = self.first - skipped
            try:
                for line in islice(lines, skipped + self.lines):
                    number += 1
                    if number > self.first:
                        yield line
            except LineTooLongError as error:
                raise line_too_long(self.file, number + 1) from error


def blocks_of(split: Split) -> list[Split]:
    """A split in parts that can be read at the same time, in order; one part where it can only be read in order."""
    if isinstance(split, ParallelFiles) and _is_indexed(split.source) and _is_indexed(split.target):
        sides: Any = split.source.blocks(), split.target.blocks()
        return [ParallelFiles(source, target, source.lines) for source, target in zip(*sides, strict=True)]
    if isinstance(split, TabbedFile) and _is_indexed(split.file):
        blocks: list[Any] = split.file.blocks()
        return [TabbedFile(block, block.lines) for block in blocks]
    return [split]


def _is_indexed(file: LineFile) -> TypeGuard[BeamFile]:
    return isinstance(file, BeamFile) and not file.compressed


def open_text_files_on_beam(
    files: Mapping[str, Files | None],
    source_language: str | None,
    target_language: str | None,
    jobs: BeamJobs,
    block_lines: int = BLOCK_LINES,
) -> Corpus:
    """The corpus of files on any file system of Beam, as `open_text_files`; workers count and hash them.

    Args:
        files, source_language, target_language: as in `open_text_files`.
        jobs: runs the workers.
        block_lines: lines that are read at a time.
    """
    listed = {name: expand(name, given, lambda path: find_files(str(path))) for name, given in files.items() if given}
    paths = {str(path) for given in listed.values() for own in given for path in (own.source, own.target) if path}
    opened = _index(sorted(paths), jobs, block_lines)

    def indexed(own: WeightedFiles) -> WeightedFiles:
        source, target = (opened[str(path)] if path else None for path in (own.source, own.target))
        return dataclasses.replace(own, source=source, target=target)

    return open_text_files(
        {name: [indexed(own) for own in given] for name, given in listed.items()}, source_language, target_language
    )


def open_parallel_files_on_beam(source: str, target: str) -> ParallelFiles:
    """Two files whose lines belong together, on any file system of Beam; this process counts and hashes them."""
    return ParallelFiles.open(BeamFile(source), BeamFile(target))


def _index(paths: list[str], jobs: BeamJobs, block_lines: int) -> dict[str, BeamFile]:
    import apache_beam as beam

    opened: dict[str, BeamFile] = {}
    for path, found in jobs.collect(
        lambda pipeline: (
            pipeline
            | beam.Create(paths)
            | beam.Reshuffle()
            | "index" >> beam.Map(_OpenFile(block_lines))
        )
    ):  # fmt: skip
        if isinstance(found, Exception):
            raise found
        opened[path] = found
    return opened


@dataclasses.dataclass(frozen=True)
class _OpenFile:
    block_lines: int

    def __call__(self, path: str) -> tuple[str, BeamFile | CorpusError]:
        try:
            return path, BeamFile(path, self.block_lines)
        except CorpusError as error:
            return path, error
