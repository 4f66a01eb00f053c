"""Engines of `prepare`: what cleans and encodes the training pairs, on one machine or on many."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Protocol

from tf_transformer._progress import Progress
from tf_transformer.data.corpora import Corpus, Split
from tf_transformer.data.preparation._cleaning import Cleaner, CleaningReport
from tf_transformer.data.preparation._encoding import Encoder
from tf_transformer.data.preparation._split_records import TrainingRecords, write_training_split
from tf_transformer.data.preparation._spool import PairChunk, SeenPairs, Spool
from tf_transformer.text import Subsample

VOCABULARY_BYTES = 512 << 20
"""Bytes of the pairs that a vocabulary is trained on, at most."""


@dataclasses.dataclass
class CleanPairs:
    """Training pairs after cleaning, numbered from 0.

    Attributes:
        reports: of each part of the split.
        pairs: their number.
        chunks: where they are.
        sample: returns a sample of them for the vocabulary, of a number of pairs at most, chosen by a seed.
    """

    reports: list[CleaningReport]
    pairs: int
    chunks: Sequence[PairChunk]
    sample: Callable[[], list[bytes]]


class Engine(Protocol):
    """Interface that cleans and encodes the training pairs.

    Every engine gives the same pairs, in the same order and shards.
    """

    def clean(
        self, corpus: Corpus, cleaner: Cleaner, directory: pathlib.Path, vocabulary_pairs: int, seed: int
    ) -> CleanPairs:
        """Read the training split once; intermediate files may be written to `directory`."""

    def encode(self, directory: pathlib.Path, pairs: CleanPairs, encoder: Encoder, fingerprint: str) -> TrainingRecords:
        """Write the shards of the training split, and the table of its lengths to `directory`."""


class OneMachine:
    """Engine of this process: it cleans, and worker processes encode.

    Args:
        workers: number of these processes; None for one per core.
    """

    def __init__(self, workers: int | None = None):
        self._workers = workers or os.cpu_count() or 1

    def clean(
        self, corpus: Corpus, cleaner: Cleaner, directory: pathlib.Path, vocabulary_pairs: int, seed: int
    ) -> CleanPairs:
        spool, seen = Spool(directory / "train.spool"), SeenPairs()
        sample, reports = Subsample(vocabulary_pairs, VOCABULARY_BYTES, seed), []
        with Progress("reading and cleaning", corpus.splits["train"].count) as progress:
            for number, (split, weight) in enumerate(parts_of(corpus)):
                spool.start_part(number, weight)
                reports.append(CleaningReport())
                shown = 0
                for pair in cleaner.clean(split, reports[-1], seen):
                    spool.add(pair)
                    sample.add(b"%b\n%b" % pair)
                    if reports[-1].read != shown:
                        progress.update(reports[-1].read - shown)
                        shown = reports[-1].read
                progress.update(reports[-1].read - shown)
        spool.close()
        return CleanPairs(reports, spool.pairs, spool.chunks, sample.texts)

    def encode(self, directory: pathlib.Path, pairs: CleanPairs, encoder: Encoder, fingerprint: str) -> TrainingRecords:
        records = write_training_split(directory, pairs.chunks, encoder, self._workers, fingerprint)
        (directory / "train.spool").unlink()
        return records


def parts_of(corpus: Corpus) -> list[tuple[Split, float]]:
    """The files of the training split with their weights; a corpus that is not of files has one part."""
    split = corpus.splits["train"]
    return list(getattr(split, "parts", [(split, 1.0)]))
