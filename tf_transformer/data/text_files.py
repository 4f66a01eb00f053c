"""A corpus of one's own text files: two files of parallel lines a split, or one TSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tf_transformer.data.corpus import SPLITS, Corpus, CorpusError, Pair
from tf_transformer.data.line_file import LineFile

FilePair = tuple[str | Path, str | Path | None]


@dataclass(frozen=True)
class ParallelFiles:
    """A split of two files whose lines belong together; `count` is checked to be the same in both."""

    source: LineFile
    target: LineFile
    count: int

    @classmethod
    def open(cls, source: str | Path, target: str | Path) -> ParallelFiles:
        source_file, target_file = LineFile(source), LineFile(target)
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
    def open(cls, path: str | Path) -> TabbedFile:
        file = LineFile(path)
        split = cls(file, file.count())
        next(iter(split))  # a file that is no TSV is refused now, not after the work on another split
        return split

    def __iter__(self) -> Iterator[Pair]:
        for number, line in enumerate(self.file, start=1):
            columns = line.split(b"\t", 2)
            if len(columns) < 2:
                raise CorpusError(
                    f"{self.file.path}, line {number}: expected `source<TAB>target`, got a line without a tab; "
                    "give a TSV, or the file of the target side too."
                )
            yield columns[0], columns[1]

    def identity(self) -> dict[str, object]:
        return {"tsv": self.file.identity()}


def open_text_files(
    files: Mapping[str, FilePair | None], source_language: str | None, target_language: str | None
) -> Corpus:
    """The corpus of the given files, with counts checked and hashes taken.

    Args:
        files: for `train`, and as far as there are any `validation` and `test`: (source file, target file), or
            (TSV, None).
        source_language, target_language: language codes; a TSV's first column is the source.
    """
    if source_language is None or target_language is None:
        raise CorpusError(
            f"Expected the languages of the files, got source_language={source_language!r} and "
            f"target_language={target_language!r}; give --source-language and --target-language, such as en and de."
        )
    if source_language == target_language:
        raise CorpusError(
            f"Expected two different languages, got {source_language!r} twice; give each side its own "
            "--source-language and --target-language."
        )
    unknown = sorted(set(files) - set(SPLITS))
    if unknown:
        raise CorpusError(f"Expected splits among {', '.join(SPLITS)}, got {', '.join(unknown)}.")
    splits = {name: _open_split(name, *files[name]) for name in SPLITS if files.get(name)}
    if "train" not in splits:
        raise CorpusError(
            "Expected files to train on, got none; give --train-source and --train-target, or --train-source alone "
            "with a TSV."
        )
    identity = {name: split.identity() for name, split in splits.items()}
    return Corpus("files", source_language, target_language, splits, identity)


def _open_split(name: str, source: str | Path | None, target: str | Path | None) -> ParallelFiles | TabbedFile:
    if source is None:
        raise CorpusError(
            f"Expected a source for {target}, got no --{name}-source; give both files, or one TSV as --{name}-source."
        )
    if target is None:
        return TabbedFile.open(source)
    return ParallelFiles.open(source, target)


def _different_counts(source: LineFile, target: LineFile, source_lines: int, target_lines: int) -> CorpusError:
    return CorpusError(
        f"Expected as many lines in the source as in the target, got {source_lines} in {source.path} and "
        f"{target_lines} in {target.path}; line n of one must translate line n of the other."
    )
