"""Model handler of Beam's `RunInference`: an exported SavedModel, text in and text out."""

import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from apache_beam.ml.inference.base import ModelHandler

from tf_transformer._beam import find_files, is_local, join, open_file
from tf_transformer.decoding._batching import use_one_thread_per_op
from tf_transformer.decoding._results import Translation
from tf_transformer.decoding._text_model import ExportedModel
from tf_transformer.decoding.on_beam._shards import TextBatch, TranslatedBatch
from tf_transformer.text import as_line


class SavedModelHandler(ModelHandler[TextBatch, TranslatedBatch, ExportedModel]):
    """An export for `RunInference`, whose elements are batches of lines already.

    Args:
        path: a version of an export, or the directory of its versions, on a file system that Beam knows.
        as_sentences: whether each line is taken for one sentence.
    """

    def __init__(self, path: str, as_sentences: bool = False):
        super().__init__(min_batch_size=1, max_batch_size=1)
        self._path, self._as_sentences = path, as_sentences

    def load_model(self) -> ExportedModel:
        use_one_thread_per_op()
        if is_local(self._path):
            return ExportedModel(self._path)
        # Stays for the life of the worker.
        return ExportedModel(_copy_here(self._path, tempfile.mkdtemp()))

    def run_inference(
        self, batch: Sequence[TextBatch], model: ExportedModel, inference_args: dict[str, Any] | None = None
    ) -> Iterator[TranslatedBatch]:
        call = model.translate_sentences if self._as_sentences else model.translate
        for own in batch:
            found = translate_each(call, own.texts)
            texts = [as_line(each.texts[0]) if each else None for each in found]
            truncated = [bool(each and each.truncated) for each in found]
            yield TranslatedBatch(own.shard, own.places, texts, truncated)


def translate_each(call: Any, texts: list[bytes]) -> list[Translation | None]:
    """The translations of a batch; where it fails, of each text alone, and None for one that fails alone."""
    try:
        return list(call(texts))
    except (tf.errors.OpError, UnicodeDecodeError):
        return [None] if len(texts) == 1 else [translate_each(call, [text])[0] for text in texts]


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
