"""A corpus of text files: for each split pairs of files with parallel lines, or TSVs; plain, gzip or xz."""

from __future__ import annotations

import glob
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

from tf_transformer._files import sha256_of_file
from tf_transformer.data.corpora._corpus import SPLITS, Corpus, CorpusError, Pair
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


FilePair = tuple[str | Path, str | Path | None]


@dataclass(frozen=True)
class WeightedFiles:
    """Two files of parallel lines, or one TSV; each may be a glob.

    Attributes:
        source: the sources, or a TSV.
        target: the targets; None for a TSV.
        weight: how often each pair occurs in an epoch: 2 repeats all pairs, 0.5 keeps a random half.
    """

    source: str | Path | LineFile | None
    target: str | Path | LineFile | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class ParallelFiles:
    """A split of two files whose lines belong together; `count` is checked to be the same in both."""

    source: LineFile
    target: LineFile
    count: int

    @classmethod
    def open(cls, source: str | Path | LineFile, target: str | Path | LineFile) -> ParallelFiles:
        source_file, target_file = LineFile.of(source), LineFile.of(target)
        counts = source_file.count(), target_file.count()
        if counts[0] != counts[1]:
            raise _different_counts(source_file, target_file, *counts)
        return cls(source_file, target_file, counts[0])

    def __iter__(self) -> Iterator[Pair]:
        for number, (source, target) in enumerate(zip_longest(self.source, self.target)):
            if source is None or target is None:
                counts = (number, self.target.count()) if source is None else (self.source.count(), number)
                raise _different_counts(self.source, self.target, *counts)
            yield source, target

    def identity(self) -> dict[str, object]:
        return {"source": self.source.identity(), "target": self.target.identity()}


@dataclass(frozen=True)
class TabbedFile:
    """A split of one file with a source, a tab and a target on each line; further columns are left out."""

    file: LineFile
    count: int

    @classmethod
    def open(cls, path: str | Path | LineFile) -> TabbedFile:
        file = LineFile.of(path)
        split = cls(file, file.count())
        next(iter(split))  # a file that is no TSV is rejected now, not after the work on another split
        return split

    def __iter__(self) -> Iterator[Pair]:
        for number, line in enumerate(self.file, start=1):
            columns = line.split(b"\t", 2)
            if len(columns) < 2:
                raise CorpusError(
                    f"{self.file.path}, line {number}: expected `source<TAB>target`. Received: a line without a tab. "
                    "Give a TSV, or the file of the target side too."
                )
            yield columns[0], columns[1]

    def identity(self) -> dict[str, object]:
        return {"tsv": self.file.identity()}


@dataclass(frozen=True)
class FileSet:
    """A split of several files, one after another, each with its weight."""

    parts: tuple[tuple[ParallelFiles | TabbedFile, float], ...]

    @property
    def count(self) -> int:
        return sum(part.count for part, _ in self.parts)

    def __iter__(self) -> Iterator[Pair]:
        for part, _ in self.parts:
            yield from part

    def identity(self) -> list[dict[str, object]]:
        return [part.identity() | {"weight": weight} for part, weight in self.parts]


Files = FilePair | Sequence[WeightedFiles]


def open_text_files(
    files: Mapping[str, Files | None], source_language: str | None, target_language: str | None
) -> Corpus:
    """The corpus of the given files, with counts checked and hashes taken.

    Args:
        files: for `train`, and as far as there are any `validation` and `test`: (source file, target file), or
            (TSV, None), or a list of `WeightedFiles`.
        source_language, target_language: language codes; a TSV's first column is the source.
    """
    if source_language is None or target_language is None:
        raise CorpusError(
            f"Expected the languages of the files. Received: source_language={source_language!r} and "
            f"target_language={target_language!r}; give --source-language and --target-language, such as en and de."
        )
    if source_language == target_language:
        raise CorpusError(
            f"Expected two different languages. Received: {source_language!r} twice. Give each side its own "
            "--source-language and --target-language."
        )
    unknown = sorted(set(files) - set(SPLITS))
    if unknown:
        raise CorpusError(f"Expected splits among {', '.join(SPLITS)}. Received: {', '.join(unknown)}.")
    splits = {name: _open_split(name, given) for name in SPLITS if (given := files.get(name))}
    if "train" not in splits:
        raise CorpusError(
            "Expected files to train on. Received: none. Give --train-source and --train-target, or --train-source "
            "alone with a TSV."
        )
    identity = {name: split.identity() for name, split in splits.items()}
    return Corpus("files", source_language, target_language, splits, identity)


def _open_split(name: str, files: Files) -> ParallelFiles | TabbedFile | FileSet:
    listed = [WeightedFiles(*files)] if isinstance(files, tuple) else list(files)
    parts = [(_open_files(name, *pair), own.weight) for own in listed for pair in _expand(name, own)]
    if len(parts) == 1 and parts[0][1] == 1.0:
        return parts[0][0]
    return FileSet(tuple(parts))


def _expand(name: str, files: WeightedFiles) -> list[tuple[str | Path | LineFile | None, str | Path | LineFile | None]]:
    """The files that globs stand for, in the order of their names; source and target must have equally many."""
    if not 0 < files.weight < float("inf"):
        raise CorpusError(f"Expected a --{name}-weight above 0. Received: {files.weight} for {files.source}.")
    sources, targets = _glob(files.source), _glob(files.target)
    if files.source is None or files.target is None:
        return [(source, None) for source in sources] or [(None, files.target)]
    if len(sources) != len(targets):
        raise CorpusError(
            f"Expected as many source files as target files. Received: {len(sources)} for {files.source} and "
            f"{len(targets)} for {files.target}; name them so that both sides sort alike."
        )
    return list(zip(sources, targets))


def _glob(pattern: str | Path | LineFile | None) -> Sequence[str | Path | LineFile]:
    """The files that a pattern matches; a name without wildcards, or of a file that exists, stands for itself."""
    if pattern is None:
        return []
    if isinstance(pattern, LineFile) or Path(pattern).exists() or not glob.has_magic(str(pattern)):
        return [pattern]
    found = [*sorted(glob.glob(str(pattern)))]
    if not found:
        raise CorpusError(f"Expected files for {pattern}. Received: none that matches; check the pattern.")
    return found


def _open_files(
    name: str, source: str | Path | LineFile | None, target: str | Path | LineFile | None
) -> ParallelFiles | TabbedFile:
    if source is None:
        raise CorpusError(
            f"Expected a source for {target}. Received: no --{name}-source. Give both files, or one TSV as "
            f"--{name}-source."
        )
    if target is None:
        return TabbedFile.open(source)
    return ParallelFiles.open(source, target)


def _different_counts(source: LineFile, target: LineFile, source_lines: int, target_lines: int) -> CorpusError:
    return CorpusError(
        f"Expected as many lines in the source as in the target. Received: {source_lines} in {source.path} and "
        f"{target_lines} in {target.path}; line n of one must translate line n of the other."
    )
