"""Translation of a text file on Apache Beam, which a second run resumes."""

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from io import BufferedIOBase
from typing import TYPE_CHECKING, Any, cast

from tf_transformer._beam import BeamJobs, create_file, file_exists, find_files, index_lines, join, open_file
from tf_transformer._beam import read_bytes as _read
from tf_transformer._beam import write_bytes as _write
from tf_transformer._model_versions import newest_version
from tf_transformer.decoding.on_beam._shards import Shard, ShardFiles, ShardReader, TranslatedBatch

if TYPE_CHECKING:
    import apache_beam as beam

SHARD_LINES = 16_384
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


class FileTranslation:
    """Translation of a file by an export, line by line, into `OUTPUT.shards/` and from there into OUTPUT.

    Args:
        saved_model: a version of an export, or the directory of its versions.
        source: the file to translate.
        output: the file of the translations; each line is that of the same line of the input.
        shard_lines: lines per shard.
        as_sentences: whether each line is taken for one sentence.
    """

    def __init__(
        self, saved_model: str, source: str, output: str, shard_lines: int = SHARD_LINES, as_sentences: bool = False
    ):
        if shard_lines < 1:
            raise ValueError(f"Expected at least 1 line per shard. Received: {shard_lines}.")
        if not file_exists(source):
            raise ValueError(f"Expected a text file. Received: {source}, which does not exist. Check the path.")
        self._saved_model = str(newest_version(saved_model)) if os.path.isdir(saved_model) else saved_model
        self._source, self._output = source, output
        self._shard_lines, self._as_sentences = shard_lines, as_sentences
        self.files = ShardFiles(f"{output}.shards")

    def run(self, jobs: BeamJobs) -> TranslatedFile:
        """Translate the shards that are missing, and write the output."""
        index = index_lines(self._source, self._shard_lines)
        shards = [
            Shard(number, offset, number * index.step, min(index.step, index.lines - number * index.step))
            for number, offset in enumerate(index.offsets)
            if index.lines
        ]
        self._check_origin(index.sha256)
        found = jobs.collect(lambda pipeline: self._done(pipeline, shards)) if shards else []
        facts: list[dict[str, Any]] = [each for _, each in found if each]
        missing = [shard for shard, each in found if not each]
        if missing:
            facts += jobs.collect(lambda pipeline: self._translate(pipeline, missing))
        self._merge(shards)
        failed, truncated = (sorted(n for each in facts for n in each[kind]) for kind in ("failed", "truncated"))
        return TranslatedFile(index.lines, len(shards), len(shards) - len(missing), failed, truncated)

    def _check_origin(self, sha256: str) -> None:
        """Reject shards of another input or model; record this one."""
        origin = {
            "input_sha256": sha256,
            "model_sha256": _model_hash(self._saved_model),
            "shard_lines": self._shard_lines,
            "as_sentences": self._as_sentences,
        }
        path = join(self.files.directory, _ORIGIN)
        if not file_exists(path):
            _write(path, json.dumps(origin, indent=2).encode())
            return
        saved = json.loads(_read(path))
        changed = [name for name, value in origin.items() if saved.get(name) != value]
        if changed:
            raise ValueError(
                f"Expected the shards in {self.files.directory} to be of the same input, model and options. Received: "
                f"other {', '.join(changed)}. Use another --output, or remove that directory to translate again."
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
        import apache_beam as beam
        from apache_beam.ml.inference.base import RunInference

        from tf_transformer.decoding.on_beam._model_handler import SavedModelHandler

        return (
            pipeline
            | "shards" >> beam.Create(shards)
            | beam.Reshuffle()
            | "batches" >> beam.FlatMap(ShardReader(self._source))
            | "translate" >> RunInference(SavedModelHandler(self._saved_model, self._as_sentences))
            | "by shard" >> beam.WithKeys(lambda batch: batch.shard)
            | "collect" >> beam.GroupByKey()
            | "write" >> beam.Map(WriteShard(self.files, {shard.number: shard for shard in shards}))
        )

    def _merge(self, shards: list[Shard]) -> None:
        with create_file(self._output) as output:
            for shard in shards:
                with open_file(self.files.path(shard.number)) as stream:
                    shutil.copyfileobj(stream, output)


@dataclasses.dataclass(frozen=True)
class WriteShard:
    """From all batches of a shard to its files and facts."""

    files: ShardFiles
    shards: dict[int, Shard]

    def __call__(self, group: tuple[int, Iterable[TranslatedBatch]]) -> dict:
        return self.files.write(self.shards[group[0]], group[1])


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
        with open_file(name) as stream:
            digest.update(hashlib.file_digest(cast(BufferedIOBase, stream), "sha256").digest())
    return digest.hexdigest()
