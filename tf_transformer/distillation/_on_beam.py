"""Translations of the training sources by Apache Beam workers, which run an export of the teacher."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable

from tf_transformer._beam import BeamJobs, create_file, file_exists, join, read_bytes
from tf_transformer.data import Corpus, PreparedDataset
from tf_transformer.data.corpora import open_parallel_files_on_beam
from tf_transformer.distillation._translation import TeacherTranslations, distilled_corpus
from tf_transformer.text import as_line
from tf_transformer.workdir.checkpoints import read_info


@dataclasses.dataclass(frozen=True)
class BeamTeacher:
    """Export of a teacher, and how it runs on Beam.

    Attributes:
        saved_model: the export. Its search is the one that translates.
        directory: of sources and translations, on storage that all workers reach.
        options, workers: as in `BeamJobs.open`.
    """

    saved_model: str
    directory: str
    options: str = ""
    workers: int | None = None

    def files(self, prepared: PreparedDataset) -> tuple[str, str]:
        """The files of the training sources of a dataset, and of their translations."""
        name = prepared.info["fingerprint"]
        return join(self.directory, f"sources-{name}.txt"), join(self.directory, f"translations-{name}.txt")

    def corpus(self, prepared: PreparedDataset) -> Corpus:
        """The translations as a corpus, with validation and test of the original data."""
        train = open_parallel_files_on_beam(*self.files(prepared))
        return distilled_corpus(prepared, train, {"data": prepared.info["fingerprint"], "train": train.identity()})


def translate_on_beam(
    teacher: BeamTeacher, checkpoint: str, data: str, shard_lines: int, _report: Callable[[int], None]
) -> None:
    """Translate the training sources that are missing.

    Args:
        teacher: of the translations.
        checkpoint: that it must have been exported from.
        data: prepared directory.
        shard_lines: lines per shard of the translations.
    """
    from tf_transformer.decoding.on_beam import FileTranslation

    prepared = PreparedDataset(data)
    sources, translations = teacher.files(prepared)
    with BeamJobs.open(translations, teacher.options, teacher.workers) as jobs:
        if not file_exists(sources):
            _write_sources(prepared, sources)
        translation = FileTranslation(
            teacher.saved_model, sources, translations, shard_lines, as_sentences=True, keep_truncated=False
        )
        _check_export(translation.version, pathlib.Path(checkpoint))
        translation.run(jobs)


def _write_sources(prepared: PreparedDataset, path: str) -> None:
    parts = TeacherTranslations(os.devnull, prepared, {})
    with create_file(path) as stream:
        for _, sources in parts.sources(parts.parts):
            stream.write("".join(f"{as_line(source)}\n" for source in sources).encode())


def _check_export(version: str, checkpoint: pathlib.Path) -> None:
    """Reject an export that is not of the teacher."""
    card = join(version, "model.json")
    found = json.loads(read_bytes(card)).get("checkpoint", {}).get("sha256") if file_exists(card) else None
    expected = read_info(checkpoint)["files"]["model.safetensors"]["sha256"]
    if found != expected:
        raise ValueError(
            f"Expected an export of the teacher's checkpoint {checkpoint}. Received: {version}, of other weights. "
            "Export that checkpoint, and give the result as --teacher-export."
        )
