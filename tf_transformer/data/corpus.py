"""A parallel corpus: two languages, and splits that can be read any number of times."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

SPLITS = ("train", "validation", "test")

Pair = tuple[bytes, bytes]


class CorpusError(ValueError):
    """A corpus that cannot be read, with what was expected, what came and what to do."""


class Split(Protocol):
    """The sentence pairs of one split; every `iter()` starts again at the first pair.

    Attributes:
        count: the number of pairs, or None where counting would mean reading everything.
    """

    count: int | None

    def __iter__(self) -> Iterator[Pair]: ...


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs of two languages, by split, and what identifies where they came from.

    Attributes:
        spec: what the corpus was opened with, as in `prepare --data SPEC`.
        source_language, target_language: language codes such as "en" and "de".
        splits: `train`, `validation` and `test`, as far as the corpus has them. Each is a re-iterable of
            (source, target) pairs of bytes, read in bounded memory.
        identity: JSON-able facts that change whenever the pairs do: seeds and versions, sizes and hashes.

    Example:
        corpus = open_corpus("phrasebook")
        source, target = next(iter(corpus.splits["train"]))
    """

    spec: str
    source_language: str
    target_language: str
    splits: Mapping[str, Split]
    identity: Mapping[str, object] = field(default_factory=dict)

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


def require_other_language(source_language: str, target_language: str) -> None:
    """Refuses a corpus that would translate a language into itself."""
    if source_language == target_language:
        raise CorpusError(
            f"Expected two different languages, got source_language={source_language!r} and "
            f"target_language={target_language!r}; give each side its own --source-language and --target-language."
        )
