"""Corpora of TensorFlow Datasets, WMT above all, through the real builders."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer.data.corpora._corpus import SPLITS, Corpus, CorpusError, Pair, Split, direction
from tf_transformer.data.corpora._tfds_downloads import prepare_with_retries

if TYPE_CHECKING:
    import tensorflow_datasets as tfds

_NAME = re.compile(r"[A-Za-z0-9_]+/[\w.-]+(:[\w.*]+)?")
_READ_BATCH = 2048


@dataclass(frozen=True)
class TfdsSplit:
    """A split of a prepared builder, read in the order of its files.

    Attributes:
        unescape: whether `&amp;` and the like are turned into the characters they mean; the SGML files of the WMT test
            sets are full of them.
    """

    builder: tfds.core.DatasetBuilder
    name: str
    source_language: str
    target_language: str
    unescape: bool

    @property
    def count(self) -> int:
        return self.builder.info.splits[self.name].num_examples

    def __iter__(self) -> Iterator[Pair]:
        for batch in self._batches():
            pairs = zip(batch[self.source_language].tolist(), batch[self.target_language].tolist())
            if self.unescape:
                yield from ((_unescape(source), _unescape(target)) for source, target in pairs)
            else:
                yield from pairs

    def _batches(self) -> Iterator[dict[str, Any]]:
        """Batches of both sides, each an array of bytes.

        `builder.as_dataset` parses one example at a time; parsing a batch at once takes a twentieth of the time.
        """
        import tensorflow as tf

        files = [os.fspath(path) for path in self.builder.info.splits[self.name].filepaths]
        spec = self.builder.info.features.tf_example_spec
        for file in files:
            records = tf.data.TFRecordDataset(file).batch(_READ_BATCH)
            try:
                yield from records.map(lambda batch: tf.io.parse_example(batch, spec)).prefetch(2).as_numpy_iterator()
            except tf.errors.OpError as error:
                raise CorpusError(
                    f"{file}: expected a complete file of TensorFlow Datasets. Received: a missing or damaged one "
                    f"({error.message}). Remove {self.builder.data_dir} to have it made again."
                ) from error


def open_tfds_corpus(
    name: str,
    source_language: str | None = None,
    target_language: str | None = None,
    *,
    data_dir: str | Path | None = None,
    manual_dir: str | Path | None = None,
    attempts: int = 5,
    first_pause: float = 2.0,
) -> Corpus:
    """A translation dataset such as `wmt14_translate/de-en`, downloaded and prepared if it is not yet.

    Args:
        name: builder and language pair, as TensorFlow Datasets names them.
        source_language, target_language: turn the pair round; its own order if both are None.
        data_dir: where downloads and prepared data are kept; TensorFlow Datasets' default if None.
        manual_dir: directory of manually downloaded files; `<data_dir>/downloads/manual` if None.
        attempts: number of attempts to download, with pauses that double from `first_pause` seconds on.

    Raises:
        CorpusError: if the dataset is unknown, or cannot be downloaded: with the files to download manually and where
            to put them.
    """
    builder = _find_builder(name, data_dir)
    pair = _language_pair(name, builder)
    source, target = direction(f"tfds:{name}", pair, source_language, target_language)
    prepare_with_retries(builder, manual_dir=manual_dir, attempts=attempts, first_pause=first_pause)
    splits: dict[str, Split] = {
        split: TfdsSplit(builder, split, source, target, unescape=split != "train")
        for split in SPLITS
        if split in builder.info.splits
    }
    file_format = builder.info.file_format.value
    if file_format != "tfrecord":
        raise CorpusError(
            f"Expected tfds:{name} prepared as tfrecord. Received: {file_format} in {builder.data_dir}. Use another "
            "--data-dir."
        )
    if "train" not in splits:
        raise CorpusError(f"Expected a split `train` in tfds:{name}. Received: {', '.join(builder.info.splits)}.")
    identity = {
        "dataset": builder.info.full_name,
        "pairs": {split: builder.info.splits[split].num_examples for split in splits},
        "bytes": {split: builder.info.splits[split].num_bytes for split in splits},
    }
    return Corpus(f"tfds:{name}", source, target, splits, identity)


def _find_builder(name: str, data_dir: str | Path | None) -> tfds.core.DatasetBuilder:
    import tensorflow_datasets as tfds

    if not _NAME.fullmatch(name):
        raise CorpusError(
            f"Expected tfds:<builder>/<pair> such as tfds:wmt14_translate/de-en. Received: tfds:{name}. Remove a "
            "namespace, and add a missing pair."
        )
    builder_name, _, config = name.partition("/")
    try:
        cls = tfds.builder_cls(builder_name)
    except tfds.core.DatasetNotFoundError as error:
        raise CorpusError(
            f"Expected a dataset that TensorFlow Datasets knows. Received: {builder_name!r}. The WMT ones are called "
            "wmt13_translate to wmt19_translate."
        ) from error
    known = sorted(cls.builder_configs)
    if config.partition(":")[0] not in known:
        raise CorpusError(f"Expected a pair of {builder_name} among {', '.join(known)}. Received: {config!r}.")
    return tfds.builder(name, data_dir=data_dir, try_gcs=False)


def _language_pair(name: str, builder: tfds.core.DatasetBuilder) -> tuple[str, str]:
    languages = getattr(builder.info.features, "languages", None)
    if not languages or len(languages) != 2:
        raise CorpusError(
            f"Expected a translation dataset of two languages. Received: tfds:{name} with features "
            f"{builder.info.features}."
        )
    return builder.info.supervised_keys or tuple(languages)


def _unescape(text: bytes) -> bytes:
    if b"&" not in text:
        return text
    return html.unescape(text.decode(errors="surrogateescape")).encode(errors="surrogateescape")
