"""Model handler of Beam's `RunInference`: an exported SavedModel that translates shards of a text file."""

import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from apache_beam.ml.inference.base import ModelHandler

from tf_transformer._beam import find_files, is_local, join, open_file
from tf_transformer.decoding._batching import in_batches, use_one_thread_per_op
from tf_transformer.decoding._results import Translation
from tf_transformer.decoding._text_model import CHUNK_BYTES, CHUNK_LINES, ExportedModel
from tf_transformer.decoding.on_beam._shards import Shard, TranslatedShard
from tf_transformer.text import MAX_LINE_BYTES, as_line, chunks


class SavedModelHandler(ModelHandler[Shard, TranslatedShard, ExportedModel]):
    """An export for `RunInference`. Within a shard, lines of similar length are translated together.

    Args:
        path: a version of an export, on a file system that Beam knows.
        source: the file that the shards are of.
        as_sentences: whether each line is taken for one sentence.
        target_language: of a multilingual export, if it is not the one that was fixed.
    """

    def __init__(self, path: str, source: str, as_sentences: bool = False, target_language: str | None = None):
        # One shard at a time: its lines are batched here, by their lengths.
        super().__init__(min_batch_size=1, max_batch_size=1)
        self._path, self._source = path, source
        self._as_sentences, self._target_language = as_sentences, target_language

    def load_model(self) -> ExportedModel:
        use_one_thread_per_op()
        if is_local(self._path):
            return ExportedModel(self._path, self._target_language)
        with tempfile.TemporaryDirectory() as directory:
            return ExportedModel(_copy_here(self._path, directory), self._target_language)

    def run_inference(
        self, batch: Sequence[Shard], model: ExportedModel, inference_args: dict[str, Any] | None = None
    ) -> Iterator[TranslatedShard]:
        translate = model.translate_sentences if self._as_sentences else model.translate
        for shard in batch:
            texts: list[str | None] = []
            truncated: list[bool] = []
            for lines in chunks(shard.read(self._source), CHUNK_LINES, CHUNK_BYTES):
                found = in_batches(lambda some: translate_each(translate, some), lines)
                texts += [as_line(each.texts[0]) if each else None for each in found]
                truncated += [
                    bool(each and each.truncated) or len(line) >= MAX_LINE_BYTES for line, each in zip(lines, found)
                ]
            yield TranslatedShard(shard, texts, truncated)


def translate_each(
    translate: Callable[[Sequence[bytes]], Sequence[Translation]], texts: Sequence[bytes]
) -> Sequence[Translation | None]:
    """The translations of a batch; where it fails, of each text alone, and None for one that fails alone."""
    try:
        return translate(texts)
    except (tf.errors.OpError, UnicodeDecodeError):
        return [None] if len(texts) == 1 else [translate_each(translate, [text])[0] for text in texts]


def _copy_here(path: str, directory: str) -> pathlib.Path:
    """Copy an export to a directory of this machine, under its own name."""
    base = path.rstrip("/")
    copy = pathlib.Path(directory, base.rpartition("/")[2])
    for file in find_files(join(base, "**")):
        target = copy / os.path.relpath(file, base)
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_file(file) as source, target.open("wb") as stream:
            shutil.copyfileobj(source, stream)
    return copy
