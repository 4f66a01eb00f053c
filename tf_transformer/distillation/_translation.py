"""Translations of the training sources by a teacher, in parts: a part is written whole or not at all, and only once."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tf_transformer._files import atomic_write, remove_leftovers, write_json
from tf_transformer.data import Corpus, Pair, PreparedDataset, PrepareOptions
from tf_transformer.data.corpora import Split
from tf_transformer.text import as_cell

if TYPE_CHECKING:
    from tf_transformer.decoding import LoadedModel

PART_PAIRS = 1024
"""Training pairs per part: what a killed process translates again, at most."""

_ORIGIN = "translations.json"


@dataclasses.dataclass(frozen=True)
class Part:
    """Some consecutive pairs of one shard of the training records."""

    number: int
    shard: int
    first: int
    pairs: int


class TeacherTranslations:
    """Directory of the teacher's translations: `part-00000.tsv`, … with source and translation per line.

    Args:
        directory: is made; one of another teacher, search or dataset is rejected.
        prepared: whose training sources are translated.
        origin: facts about the teacher and its search that determine the translations.
        part_pairs: training pairs per part.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        prepared: PreparedDataset,
        origin: Mapping[str, object],
        part_pairs: int = PART_PAIRS,
    ):
        if part_pairs < 1:
            raise ValueError(f"Expected at least 1 pair per part. Received: {part_pairs}.")
        self.directory = pathlib.Path(directory)
        self.prepared = prepared
        self.origin: dict[str, Any] = {"data": prepared.info["fingerprint"], "part_pairs": part_pairs, **origin}
        counts = [shard["pairs"] for shard in prepared.info["splits"]["train"]["shards"]]
        pieces = [
            (shard, first, min(part_pairs, count - first))
            for shard, count in enumerate(counts)
            for first in range(0, count, part_pairs)
        ]
        self.parts = [Part(number, *piece) for number, piece in enumerate(pieces)]

    def open(self) -> None:
        """Create the directory, or check that it belongs to the same teacher, search and data."""
        self.directory.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.directory)
        path = self.directory / _ORIGIN
        if not path.is_file():
            write_json(path, self.origin)
            return
        saved = json.loads(path.read_bytes())
        changed = [name for name in {**self.origin, **saved} if saved.get(name) != self.origin.get(name)]
        if changed:
            raise ValueError(
                f"Expected the translations in {self.directory} to be of the same teacher and data. Received: other "
                f"{', '.join(changed)}. Use another --workdir, or remove that directory to translate again."
            )

    def path(self, part: Part) -> pathlib.Path:
        return self.directory / f"part-{part.number:05d}.tsv"

    @property
    def missing(self) -> list[Part]:
        """The parts that are not translated yet."""
        return [part for part in self.parts if not self.path(part).is_file()]

    @property
    def pairs(self) -> int:
        """Training pairs of all parts."""
        return sum(part.pairs for part in self.parts)

    def translate(self, model: "LoadedModel", report: Callable[[int], None]) -> None:
        """Translate the missing parts on all cores; `report` receives the number of pairs of each batch."""
        for part, sources in self.sources(self.missing):
            translations = _translate_each(model, sources, report)
            with atomic_write(self.path(part)) as stream:
                for source in sources:
                    if (translation := translations[source]) is not None:
                        stream.write(f"{as_cell(source)}\t{as_cell(translation)}\n".encode())

    def sources(self, parts: list[Part]) -> Iterator[tuple[Part, list[str]]]:
        """The parts with their source sentences, as text; each shard of the records is read once."""
        import tensorflow as tf

        reader, decode = self.prepared.reader("train"), self.prepared.tokenizers.source.decode
        shard = None
        for part in parts:
            if part.shard != shard:
                shard, pairs = part.shard, reader.read(tf.constant([part.shard], tf.int64))
                ids, splits = pairs.source.numpy(), pairs.source_splits.numpy()
            rows = range(part.first, part.first + part.pairs)
            yield part, [decode(ids[splits[row] : splits[row + 1]].tolist()) for row in rows]

    def corpus(self) -> Corpus:
        """The translations as a corpus, with validation and test of the original data."""
        train = _Parts([self.path(part) for part in self.parts], self.pairs)
        return distilled_corpus(self.prepared, train, self.origin)


def distilled_corpus(prepared: PreparedDataset, train: Split, identity: Mapping[str, object]) -> Corpus:
    """The corpus of a student: training pairs of the teacher, validation and test of the original data."""
    splits: dict[str, Any] = {"train": train}
    splits |= {name: _Lines(*prepared.lines(name)) for name in prepared.splits if name != "train"}
    return Corpus("distilled", prepared.source_language, prepared.target_language, splits, identity)


def distilled_options(prepared: PreparedDataset) -> PrepareOptions:
    """The cleaning of the original data. Repeated pairs stay: the data had them with several references."""
    inputs = prepared.info["inputs"]
    fields = [field.name for field in dataclasses.fields(PrepareOptions) if field.name in inputs]
    return dataclasses.replace(
        PrepareOptions(**{name: inputs[name] for name in fields}), vocab_size=None, drop_duplicates=False
    )


def _translate_each(model: "LoadedModel", sources: list[str], report: Callable[[int], None]) -> dict[str, str | None]:
    """The translation of each source that occurs, None where the source was too long for the teacher."""
    from tf_transformer.decoding import in_batches, parallel_batches

    unique = list(dict.fromkeys(sources))
    if repeated := len(sources) - len(unique):
        report(repeated)
    texts = [source.encode() for source in unique]
    found = in_batches(model.translate_sentences, texts, threads=parallel_batches(), done=report)
    return {source: None if each.truncated else each.texts[0] for source, each in zip(unique, found, strict=True)}


@dataclasses.dataclass(frozen=True)
class _Parts:
    """The pairs of all parts, read from their files."""

    paths: list[pathlib.Path]
    count: int

    def __iter__(self) -> Iterator[Pair]:
        for path in self.paths:
            for line in path.read_bytes().split(b"\n")[:-1]:
                source, _, target = line.partition(b"\t")
                yield source, target


@dataclasses.dataclass(frozen=True)
class _Lines:
    """Sentence pairs in memory."""

    sources: list[str]
    references: list[str]

    @property
    def count(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[Pair]:
        for source, reference in zip(self.sources, self.references, strict=True):
            yield source.encode(), reference.encode()
