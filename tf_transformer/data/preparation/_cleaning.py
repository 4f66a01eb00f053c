"""Cleaning of sentence pairs in named steps, each of which counts what it changed or dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from tf_transformer.data.corpora import Pair
from tf_transformer.data.preparation._spool import SeenPairs

# Everything below the space, and DEL: NUL, tabs and stray line ends inside a sentence become spaces.
_CONTROLS_TO_SPACES = bytes(32 if byte < 32 or byte == 127 else byte for byte in range(256))
_BATCH = 8192


class Change(Protocol):
    """A step that rewrites a pair: `step(source, target) -> (source, target)`; pairs that differ are counted."""

    @property
    def name(self) -> str: ...

    def __call__(self, source: bytes, target: bytes, /) -> Pair: ...


class Filter(Protocol):
    """A step that judges a pair: `step(source, target) -> keep?`."""

    @property
    def name(self) -> str: ...

    def __call__(self, source: bytes, target: bytes, /) -> bool: ...


@dataclass(frozen=True)
class CarriageReturn:
    """Remove the carriage return that Windows files have at the end of a line."""

    name: str = "carriage_return"

    def __call__(self, source: bytes, target: bytes) -> Pair:
        if source.endswith(b"\r") or target.endswith(b"\r"):
            return source.rstrip(b"\r"), target.rstrip(b"\r")
        return source, target


@dataclass(frozen=True)
class ControlCharacters:
    """Replace NUL, tabs, line ends and the other ASCII control characters inside a sentence by spaces."""

    name: str = "control_characters"

    def __call__(self, source: bytes, target: bytes) -> Pair:
        return source.translate(_CONTROLS_TO_SPACES), target.translate(_CONTROLS_TO_SPACES)


@dataclass(frozen=True)
class Whitespace:
    """Strip white space at both ends. The tokenizer collapses runs of spaces inside."""

    name: str = "whitespace"

    def __call__(self, source: bytes, target: bytes) -> Pair:
        return source.strip(), target.strip()


@dataclass(frozen=True)
class BadUtf8:
    """Drop a pair of which a side is not UTF-8."""

    name: str = "bad_utf8"

    def __call__(self, source: bytes, target: bytes) -> bool:
        try:
            if not source.isascii():
                source.decode()
            if not target.isascii():
                target.decode()
        except UnicodeDecodeError:
            return False
        return True


@dataclass(frozen=True)
class Empty:
    """Drop a pair of which a side is empty."""

    name: str = "empty"

    def __call__(self, source: bytes, target: bytes) -> bool:
        return bool(source) and bool(target)


@dataclass(frozen=True)
class TooLong:
    """Drop a pair of which a side has too many words, or too many bytes (a text without spaces is one word)."""

    max_words: int = 256
    max_bytes: int = 4096
    name: str = "too_long"

    def __call__(self, source: bytes, target: bytes) -> bool:
        return (
            len(source) <= self.max_bytes
            and len(target) <= self.max_bytes
            and source.count(b" ") < self.max_words
            and target.count(b" ") < self.max_words
        )


@dataclass(frozen=True)
class LengthRatio:
    """Drop a pair of which one side is far longer than the other, in characters.

    Kept while `longer <= max_ratio * shorter + slack`; the slack lets short pairs such as "Yes." and "Jawohl, gern."
    through, for which a ratio is meaningless.
    """

    max_ratio: float = 3.0
    slack: int = 20
    name: str = "length_ratio"

    def __call__(self, source: bytes, target: bytes) -> bool:
        shorter = len(source) if source.isascii() else len(source.decode(errors="replace"))
        longer = len(target) if target.isascii() else len(target.decode(errors="replace"))
        if shorter > longer:
            shorter, longer = longer, shorter
        return longer <= self.max_ratio * shorter + self.slack


@dataclass(frozen=True)
class Identical:
    """Drop a pair whose sides are the same text: names and numbers, or a sentence that was never translated."""

    name: str = "identical"

    def __call__(self, source: bytes, target: bytes) -> bool:
        return source != target


@dataclass
class CleaningReport:
    """Numbers of pairs read and kept, and changed or dropped by each step."""

    read: int = 0
    kept: int = 0
    changed: Counter = field(default_factory=Counter)
    dropped: Counter = field(default_factory=Counter)

    def add(self, other: CleaningReport) -> None:
        """Add the counts of another report, such as a worker process's."""
        self.read += other.read
        self.kept += other.kept
        self.changed.update(other.changed)
        self.dropped.update(other.dropped)

    def to_dict(self) -> dict[str, object]:
        """The counts as `dataset.json` keeps them."""
        return {"read": self.read, "kept": self.kept, "changed": dict(self.changed), "dropped": dict(self.dropped)}


CHANGES: tuple[Change, ...] = (CarriageReturn(), ControlCharacters(), Whitespace())


@dataclass(frozen=True)
class Cleaner:
    """A chain of named steps over sentence pairs: changes of each side first, then filters, then duplicates.

    The order has reasons: changes come first so that a line of spaces counts as empty; bad UTF-8 comes before all
    that looks at characters; duplicates come last, so that only pairs that are kept are remembered. A pair is counted
    under the first step that drops it. A cleaner holds no state and can be pickled into worker processes; duplicates
    are remembered by each call of `clean` for itself, so one call has to see all of a split.

    Example:
        report = CleaningReport()
        for source, target in training_cleaner().clean(corpus.splits["train"], report): …
        report.dropped  # {"empty": 3, "duplicate": 14, …}
    """

    changes: Sequence[Change] = CHANGES
    filters: Sequence[Filter] = ()
    drop_duplicates: bool = False

    def clean(self, pairs: Iterable[Pair], report: CleaningReport, seen: SeenPairs | None = None) -> Iterator[Pair]:
        """The pairs that pass, in order; `report` is up to date whenever a batch of them has been handed out.

        `seen` are the pairs of other files of the same split, which count as duplicates.
        """
        report.add(self.empty_report())
        if self.drop_duplicates and seen is None:
            seen = SeenPairs()
        pairs = iter(pairs)
        while batch := list(islice(pairs, _BATCH)):
            report.read += len(batch)
            kept = self._judge(batch, report)
            if self.drop_duplicates and seen is not None:
                new = seen.add(kept)
                report.dropped["duplicate"] += len(kept) - len(new)
                kept = new
            report.kept += len(kept)
            yield from kept

    def empty_report(self) -> CleaningReport:
        """A report in which every step has a count of 0."""
        report = CleaningReport()
        report.changed.update({step.name: 0 for step in self.changes})
        report.dropped.update({step.name: 0 for step in self.filters})
        if self.drop_duplicates:
            report.dropped.update({"duplicate": 0})
        return report

    def _judge(self, batch: list[Pair], report: CleaningReport) -> list[Pair]:
        kept = []
        for source, target in batch:
            for change in self.changes:
                new_source, new_target = change(source, target)
                if new_source != source or new_target != target:
                    report.changed[change.name] += 1
                    source, target = new_source, new_target
            for keep in self.filters:
                if not keep(source, target):
                    report.dropped[keep.name] += 1
                    break
            else:
                kept.append((source, target))
        return kept


def training_cleaner(
    *, max_words: int = 256, max_ratio: float = 3.0, drop_identical: bool = False, drop_duplicates: bool = True
) -> Cleaner:
    """The cleaner of a training split."""
    filters: list[Filter] = [BadUtf8(), Empty(), TooLong(max_words, 16 * max_words), LengthRatio(max_ratio)]
    if drop_identical:
        filters.append(Identical())
    return Cleaner(filters=tuple(filters), drop_duplicates=drop_duplicates)


def held_out_cleaner() -> Cleaner:
    """The cleaner of validation and test: only what cannot be scored goes, so that scores stay comparable."""
    return Cleaner(filters=(BadUtf8(), Empty()))
