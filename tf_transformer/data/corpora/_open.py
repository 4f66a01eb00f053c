"""Corpora of `prepare --data SPEC`: the built-in phrasebook, TensorFlow Datasets, and text files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tf_transformer.data.corpora._corpus import Corpus, CorpusError
from tf_transformer.data.corpora._text_files import Files, open_text_files


def open_corpus(
    spec: str,
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    files: Mapping[str, Files | None] | None = None,
    data_dir: str | Path | None = None,
    manual_dir: str | Path | None = None,
    download_attempts: int = 5,
    seed: int = 0,
) -> Corpus:
    """Open the corpus that a spec names: check its files, and download what is missing.

    Args:
        spec: `phrasebook`, `files`, or `tfds:<builder>/<pair>` such as `tfds:wmt14_translate/de-en`.
        source_language, target_language: language codes. Needed for `files`; elsewhere they turn the corpus round
            (the phrasebook is en to de and WMT's `de-en` is de to en unless they say otherwise). One of the two
            is enough.
        files: for `files`: the file pair of each split, `{"train": (source, target), …}`, where a None target means
            that the source is a TSV; or a list of `WeightedFiles`.
        data_dir: where TensorFlow Datasets keeps downloads and prepared data; its own default if None.
        manual_dir: directory of manually downloaded files; `<data_dir>/downloads/manual` if None.
        download_attempts: number of attempts to download, with growing pauses.
        seed: of the phrasebook.

    Raises:
        CorpusError: what was expected, what came, and what to do about it.
    """
    if files and spec != "files":
        raise CorpusError(f"Expected --data files with --train-source. Received: --data {spec}; use one of the two.")
    if spec == "files":
        return open_text_files(files or {}, source_language, target_language)
    if spec == "phrasebook":
        from tf_transformer.data.corpora.phrasebook.corpus import open_phrasebook

        return open_phrasebook(source_language, target_language, seed=seed)
    kind, _, name = spec.partition(":")
    if kind == "tfds" and name:
        from tf_transformer.data.corpora._tfds import open_tfds_corpus

        return open_tfds_corpus(
            name, source_language, target_language, data_dir=data_dir, manual_dir=manual_dir, attempts=download_attempts
        )
    raise CorpusError(
        f"Expected a corpus `phrasebook`, `files` or `tfds:<builder>/<pair>` such as tfds:wmt14_translate/de-en. "
        f"Received: {spec!r}."
    )
