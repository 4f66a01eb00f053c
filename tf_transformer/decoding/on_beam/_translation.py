"""Translation of a text file on Apache Beam, which a second run resumes."""

import dataclasses
import hashlib
import json
import os
import shutil
from io import BufferedIOBase
from typing import TYPE_CHECKING, Any, cast

from tf_transformer._beam import (
    BeamJobs,
    create_file,
    file_exists,
    find_files,
    index_lines,
    is_local,
    join,
    open_file,
    read_bytes,
    write_bytes,
)
from tf_transformer._model_versions import newest_version
from tf_transformer.decoding.on_beam._shards import Shard, ShardFiles

if TYPE_CHECKING:
    import apache_beam as beam

SHARD_LINES = 4096
"""Lines per shard: what a failed run translates again, at most, per worker."""

_ORIGIN = "translation.json"


@dataclasses.dataclass(frozen=True)
class TranslatedFile:
    """Result of a translation on Beam.

    Attributes:
        lines: number of lines.
        shards: number of shards.
        reused: shards that an earlier run had finished.
        failed: numbers of lines that the model failed on, from 1; they are empty in the output.
        truncated: numbers of lines that the model truncated.
    """

    lines: int
    shards: int
    reused: int
    failed: list[int]
    truncated: list[int]


@dataclasses.dataclass(frozen=True)
class FileTranslation:
    """Translation of a file by an export, line by line, into `OUTPUT.shards/` and from there into OUTPUT.

    Attributes:
        saved_model: a version of an export; on this machine also the directory of its versions.
        source: the file to translate.
        output: the file of the translations; each line is that of the same line of the input.
        shard_lines: lines per shard.
        as_sentences: whether each line is taken for one sentence.
        keep_truncated: whether the translations of truncated lines are written; if not, their lines are empty.
        target_language: of a multilingual export, if it is not the one that was fixed.
    """

    saved_model: str
    source: str
    output: str
    shard_lines: int = SHARD_LINES
    as_sentences: bool = False
    keep_truncated: bool = True
    target_language: str | None = None

    def __post_init__(self) -> None:
        if self.shard_lines < 1:
            raise ValueError(f"Expected at least 1 line per shard. Received: {self.shard_lines}.")
        if not file_exists(self.source):
            raise ValueError(f"Expected a text file. Received: {self.source}, which does not exist. Check the path.")

    @property
    def version(self) -> str:
        """The version of the export that translates."""
        return str(newest_version(self.saved_model)) if is_local(self.saved_model) else self.saved_model

    @property
    def files(self) -> ShardFiles:
        return ShardFiles(f"{self.output}.shards", self.keep_truncated)

    def run(self, jobs: BeamJobs) -> TranslatedFile:
        """Translate the shards that are missing, and write the output."""
        index = index_lines(self.source, self.shard_lines)
        shards = Shard.all_of(index)
        self._check_origin(index.sha256)
        found = jobs.collect(lambda pipeline: self._done(pipeline, shards)) if shards else []
        facts: list[dict[str, Any]] = [each for _, each in found if each]
        missing = sorted((shard for shard, each in found if not each), key=lambda shard: shard.number)
        if missing:
            facts += jobs.collect(lambda pipeline: self._translate(pipeline, missing))
        self._merge(shards)
        failed, truncated = (sorted(n for each in facts for n in each[kind]) for kind in ("failed", "truncated"))
        return TranslatedFile(index.lines, len(shards), len(shards) - len(missing), failed, truncated)

    def _check_origin(self, sha256: str) -> None:
        """Reject shards of another input or model; record this one."""
        origin = {
            "input_sha256": sha256,
            "model_sha256": _model_hash(self.version),
            "shard_lines": self.shard_lines,
            "as_sentences": self.as_sentences,
            "keep_truncated": self.keep_truncated,
            "target_language": self.target_language,
        }
        directory = self.files.directory
        path = join(directory, _ORIGIN)
        if not file_exists(path):
            write_bytes(path, json.dumps(origin, indent=2).encode())
            return
        try:
            saved = json.loads(read_bytes(path))
        except ValueError:
            saved = {}
        changed = [name for name, value in origin.items() if saved.get(name) != value]
        if changed:
            raise ValueError(
                f"Expected the shards in {directory} to be of the same input, model and options. Received: other "
                f"{', '.join(changed)}. Use another --output, or remove that directory to translate again."
            )

    def _done(self, pipeline: "beam.Pipeline", shards: list[Shard]) -> "beam.PCollection":
        """Each shard with its facts, if it is finished."""
        import apache_beam as beam

        files = self.files
        return (
            pipeline
            | "shards" >> beam.Create(shards)
            | beam.Reshuffle()
            | "check" >> beam.Map(lambda shard: (shard, files.facts(shard)))
        )

    def _translate(self, pipeline: "beam.Pipeline", shards: list[Shard]) -> "beam.PCollection":
        """No shuffle after the model: each shard is written as soon as it is translated."""
        import apache_beam as beam
        from apache_beam.ml.inference.base import RunInference

        from tf_transformer.decoding.on_beam._model_handler import SavedModelHandler

        handler = SavedModelHandler(self.version, self.source, self.as_sentences, self.target_language)
        return (
            pipeline
            | "shards" >> beam.Create(shards)
            | beam.Reshuffle()
            | "translate" >> RunInference(handler)
            | "write" >> beam.Map(self.files.write)
        )

    def _merge(self, shards: list[Shard]) -> None:
        with create_file(self.output) as output:
            for shard in shards:
                with open_file(self.files.path(shard.number)) as stream:
                    shutil.copyfileobj(stream, output)


def _model_hash(path: str) -> str:
    """SHA-256 of the names and contents of an export's graph and weights."""
    digest = hashlib.sha256()
    names = [join(path, "saved_model.pb"), *find_files(join(path, "variables", "*"))]
    for name in names:
        if not file_exists(name):
            raise ValueError(
                f"Expected a SavedModel of `tf-transformer export`. Received: {path} without "
                f"{os.path.basename(name)}. Check --saved-model."
            )
        digest.update(os.path.basename(name).encode())
        with open_file(name) as stream:
            digest.update(hashlib.file_digest(cast(BufferedIOBase, stream), "sha256").digest())
    return digest.hexdigest()
