"""A corpus of text files: for each split pairs of files with parallel lines, or TSVs; plain, gzip or xz."""

from __future__ import annotations

import dataclasses
import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tf_transformer.data.corpora._corpus import SPLITS, Corpus, CorpusError, LanguagePair, Pair
from tf_transformer.data.corpora._line_file import LineFile

FilePair = tuple[str | Path, str | Path | None]


@dataclass(frozen=True)
class WeightedFiles:
    """Two files of parallel lines, or one TSV; each may be a glob.

    Attributes:
        source: the sources, or a TSV.
        target: the targets; None for a TSV.
        weight: how often each pair occurs in an epoch: 2 repeats all pairs, 0.5 keeps a random half.
        languages: codes of source and target, in a corpus of several language pairs.
    """

    source: str | Path | LineFile | None
    target: str | Path | LineFile | None = None
    weight: float = 1.0
    languages: LanguagePair | None = None


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
    """A split of several files, one after another, each with its weight, and its languages if there are several."""

    parts: tuple[tuple[ParallelFiles | TabbedFile, float], ...]
    languages: tuple[LanguagePair, ...] = ()

    @property
    def count(self) -> int:
        return sum(part.count for part, _ in self.parts)

    def __iter__(self) -> Iterator[Pair]:
        for part, _ in self.parts:
            yield from part

    def identity(self) -> list[dict[str, object]]:
        facts = [part.identity() | {"weight": weight} for part, weight in self.parts]
        return [own | {"languages": "-".join(pair)} for own, pair in zip(facts, self.languages)] or facts


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
    listed = [own for given in files.values() if given and not isinstance(given, tuple) for own in given]
    if listed and all(own.languages for own in listed):
        return _open_language_pairs(files)
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
    splits = _open_splits(files, "--train-source and --train-target, or --train-source alone with a TSV")
    identity = {name: split.identity() for name, split in splits.items()}
    return Corpus("files", source_language, target_language, splits, identity)


def _open_language_pairs(files: Mapping[str, Files | None]) -> Corpus:
    """The corpus of files of several language pairs. The splits other than train need no other pairs than it has."""
    splits = _open_splits(files, "--pair SOURCE-TARGET:FILE:FILE")
    corpus = Corpus("files", None, None, splits, {name: split.identity() for name, split in splits.items()})
    pairs = corpus.language_pairs
    for name in splits:
        for source, target in corpus.languages_of(name):
            if source == target or (source, target) not in pairs:
                raise CorpusError(
                    f"Expected two different languages, and for {name} a pair to train on. Received: "
                    f"{source}-{target}, with training pairs {', '.join('-'.join(pair) for pair in pairs)}."
                )
    common = [{pair[side] for pair in pairs} for side in (0, 1)]
    languages = [codes.pop() if len(codes) == 1 else None for codes in common]
    return dataclasses.replace(corpus, source_language=languages[0], target_language=languages[1])


def _open_splits(files: Mapping[str, Files | None], needed: str) -> dict[str, Any]:
    unknown = sorted(set(files) - set(SPLITS))
    if unknown:
        raise CorpusError(f"Expected splits among {', '.join(SPLITS)}. Received: {', '.join(unknown)}.")
    splits = {name: _open_split(name, given) for name in SPLITS if (given := files.get(name))}
    if "train" not in splits:
        raise CorpusError(f"Expected files to train on. Received: none. Give {needed}.")
    return splits


def _open_split(name: str, files: Files) -> ParallelFiles | TabbedFile | FileSet:
    listed = expand(name, files, _find)
    parts = tuple((_open_files(name, own), own.weight) for own in listed)
    if all(own.languages for own in listed):
        return FileSet(parts, tuple(own.languages for own in listed if own.languages))
    if len(parts) == 1 and parts[0][1] == 1.0:
        return parts[0][0]
    return FileSet(parts)


def expand(name: str, files: Files, find: Callable[[Any], Sequence[Any]]) -> list[WeightedFiles]:
    """The files of a split without wildcards, in the order of their names.

    Args:
        name: the split.
        files: of the split.
        find: returns the files that a pattern matches, which is not None.
    """
    listed = [WeightedFiles(*files)] if isinstance(files, tuple) else files
    return [one for own in listed for one in _expand(name, own, find)]


def _expand(name: str, files: WeightedFiles, find: Callable[[Any], Sequence[Any]]) -> list[WeightedFiles]:
    if not 0 < files.weight < float("inf"):
        raise CorpusError(f"Expected a --{name}-weight above 0. Received: {files.weight} for {files.source}.")
    found = [[None] if pattern is None else list(find(pattern)) for pattern in (files.source, files.target)]
    for pattern, own in zip((files.source, files.target), found):
        if not own:
            raise CorpusError(f"Expected files for {pattern}. Received: none that matches; check the pattern.")
    if files.target is None:
        found[1] *= len(found[0])
    if len(found[0]) != len(found[1]):
        raise CorpusError(
            f"Expected as many source files as target files. Received: {len(found[0])} for {files.source} and "
            f"{len(found[1])} for {files.target}; name them so that both sides sort alike."
        )
    return [dataclasses.replace(files, source=source, target=target) for source, target in zip(*found)]


def _find(pattern: str | Path | LineFile) -> Sequence[str | Path | LineFile]:
    """The files that a pattern matches; a name without wildcards, or of a file that exists, stands for itself."""
    if isinstance(pattern, LineFile) or Path(pattern).exists() or not glob.has_magic(str(pattern)):
        return [pattern]
    return sorted(glob.glob(str(pattern)))


def _open_files(name: str, files: WeightedFiles) -> ParallelFiles | TabbedFile:
    if files.source is None:
        raise CorpusError(
            f"Expected a source for {files.target}. Received: no --{name}-source. Give both files, or one TSV as "
            f"--{name}-source."
        )
    if files.target is None:
        return TabbedFile.open(files.source)
    return ParallelFiles.open(files.source, files.target)


def _different_counts(source: LineFile, target: LineFile, source_lines: int, target_lines: int) -> CorpusError:
    return CorpusError(
        f"Expected as many lines in the source as in the target. Received: {source_lines} in {source.path} and "
        f"{target_lines} in {target.path}; line n of one must translate line n of the other."
    )
