"""A parallel corpus: two languages, and splits that can be read any number of times."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

SPLITS = ("train", "validation", "test")

Pair = tuple[bytes, bytes]
LanguagePair = tuple[str, str]


class CorpusError(ValueError):
    """A corpus that cannot be read, with what was expected, what came and what to do."""


class Split(Protocol):
    """The sentence pairs of one split; every `iter()` starts again at the first pair.

    Attributes:
        count: the number of pairs, or None where counting would mean reading everything.
    """

    @property
    def count(self) -> int | None: ...

    def __iter__(self) -> Iterator[Pair]: ...


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs of two languages, by split, and what identifies where they came from.

    Attributes:
        spec: what the corpus was opened with, as in `prepare --data SPEC`.
        source_language, target_language: language codes such as "en" and "de"; None: there are several.
        splits: `train`, `validation` and `test`, as far as the corpus has them. Each is a re-iterable of
            (source, target) pairs of bytes, read in bounded memory.
        identity: JSON-able facts that change whenever the pairs do: seeds and versions, sizes and hashes.

    Example:
        corpus = open_corpus("phrasebook")
        source, target = next(iter(corpus.splits["train"]))
    """

    spec: str
    source_language: str | None
    target_language: str | None
    splits: Mapping[str, Split]
    identity: Mapping[str, object] = field(default_factory=dict)

    @property
    def language_pairs(self) -> tuple[LanguagePair, ...]:
        """The languages of a corpus of several pairs, each pair once; empty for a corpus of one."""
        return tuple(dict.fromkeys(self.languages_of("train")))

    def languages_of(self, split: str) -> tuple[LanguagePair, ...]:
        """The languages of each part of a split of a corpus of several pairs; else empty."""
        return getattr(self.splits.get(split), "languages", ())

    @property
    def languages(self) -> str:
        """The languages as text."""
        pairs = self.language_pairs or ((self.source_language, self.target_language),)
        return ", ".join(f"{source} to {target}" for source, target in pairs)

    def fingerprint(self) -> str:
        """The sha256 of everything that determines the pairs: equal for the same input, on any machine."""
        facts = {
            "spec": self.spec,
            "source_language": self.source_language,
            "target_language": self.target_language,
            "splits": list(self.splits),
            "identity": self.identity,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def direction(spec: str, pair: tuple[str, str], source: str | None, target: str | None) -> tuple[str, str]:
    """The source and target language of a corpus of two languages: as chosen, else in the pair's own order.

    Naming one language is enough, the other side is the other one.
    """
    first, second = pair
    if source is None and target is None:
        return first, second
    other = {first: second, second: first}
    chosen = source or other.get(target or "", ""), target or other.get(source or "", "")
    if chosen not in ((first, second), (second, first)):
        raise CorpusError(
            f"Expected the languages {first} and {second} of {spec}. Received: source_language={source!r} and "
            f"target_language={target!r}; give --source-language and --target-language as these two, in either order."
        )
    return chosen
