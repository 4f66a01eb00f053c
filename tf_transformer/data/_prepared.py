"""Prepared directory: written by `prepare`, read by training, evaluation and export.

dataset.json              languages, counts, drops, lengths, hashes, the command
tokenizer.model           or source.model and target.model
train-00000.tfrecord …    records of ids; also of the validation set
train.lengths.npy …       how many pairs have which lengths
validation.source.txt …   validation and test as plain text
"""

import functools
import hashlib
import json
import os
import pathlib
import re
from typing import Any

import numpy as np
import tensorflow as tf

from tf_transformer._files import sha256_of_file
from tf_transformer.data._gathering import SpecialIds
from tf_transformer.data._pair_ids import ID_TYPES
from tf_transformer.data._record_layout import RecordError, check_layout
from tf_transformer.data._records import ShardReader, failed_assertion
from tf_transformer.data._shapes import LengthCounts
from tf_transformer.text import TokenizerPair, load_tokenizers

INFO = "dataset.json"
FORMAT = 2
_FILE_NAME = re.compile(r"\w[\w.-]{0,99}", re.ASCII)


class PreparedError(ValueError):
    """A directory that is not a complete prepared directory."""


class PreparedDataset:
    """Dataset in a prepared directory. Only `dataset.json` is read at first; other files are read when needed.

    Args:
        path: the directory.

    Attributes:
        info: content of `dataset.json`.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        self.info = read_info(self.path)

    @property
    def source_language(self) -> str | None:
        """Its code; None: there are several."""
        return self.info["source_language"]

    @property
    def target_language(self) -> str | None:
        """Its code; None: there are several."""
        return self.info["target_language"]

    @property
    def languages(self) -> str:
        """The languages as text."""
        pairs = self.info.get("language_pairs") or [(self.source_language, self.target_language)]
        return ", ".join(f"{source} to {target}" for source, target in pairs)

    def language_pairs(self, split: str) -> list[tuple[str | None, str | None]]:
        """The source and the target language of each line of `validation` or `test`."""
        facts = self.info["splits"][split]
        whole = {"source": self.source_language, "target": self.target_language, "pairs": facts["pairs"]}
        runs = facts.get("language_pairs") or [whole]
        return [(run["source"], run["target"]) for run in runs for _ in range(run["pairs"])]

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.info["splits"])

    @functools.cached_property
    def tokenizers(self) -> TokenizerPair:
        """The tokenizers, checked to be those the records were made with."""
        tokenizers = load_tokenizers(self.path)
        expected = self.info["tokenizer"]["sha256"]
        if tokenizers.sha256 != expected:
            raise PreparedError(
                f"{self.path}: expected the tokenizer that made the records (SHA-256 {expected}). Received: "
                f"{tokenizers.sha256}. Restore its files, or prepare the directory again with --overwrite."
            )
        return tokenizers

    @functools.cached_property
    def special_ids(self) -> SpecialIds:
        source, target = self.tokenizers.source, self.tokenizers.target
        return SpecialIds(source.pad_id, target.pad_id, target.bos_id)

    def reader(self, split: str = "train") -> ShardReader:
        """The records of `train` or `validation`; files that are missing or truncated raise RecordError."""
        facts, tokenizers = self.info["splits"][split], self.tokenizers
        for shard in facts["shards"]:
            self._check_size(shard)
            self._check_layout(shard, facts["id_type"])
        return ShardReader(
            paths=[self.path / shard["file"] for shard in facts["shards"]],
            pairs=[shard["pairs"] for shard in facts["shards"]],
            origins=[record_origin(self.info["fingerprint"], shard["file"]) for shard in facts["shards"]],
            id_type=facts["id_type"],
            vocab_sizes=(tokenizers.source.vocab_size, tokenizers.target.vocab_size),
        )

    def length_counts(self, split: str = "train") -> LengthCounts:
        """Numbers of pairs of `train` or `validation` by length."""
        path = self.path / lengths_name(split)
        self._check_content(path.name, self.info["splits"][split]["lengths_sha256"])
        table = np.load(path, allow_pickle=False)
        return LengthCounts(table[:, :2], table[:, 2])

    def verify(self) -> None:
        """Read all records; raise RecordError for the first shard that has changed since it was written."""
        for split in self.info["splits"].values():
            for shard in split.get("shards", ()):
                self._check_size(shard)
                self._check_content(shard["file"], shard["sha256"])

    def explain(self, error: tf.errors.OpError | UnicodeDecodeError) -> Exception:
        """Return the exception to raise for a read error: if possible a RecordError that names the file.

        Args:
            error: from TensorFlow; UnicodeDecodeError if its message quotes bytes of a record.
        """
        reading = (tf.errors.DataLossError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError, UnicodeDecodeError)
        if not isinstance(error, reading):
            return error
        try:
            self.verify()
            for split in self.info["splits"].values():
                for shard in split.get("shards", ()):
                    self._check_layout(shard, split["id_type"])
        except RecordError as damage:
            return damage
        failed = None if isinstance(error, UnicodeDecodeError) else failed_assertion(error)
        return RecordError(f"{failed}; prepare the directory again with --overwrite.") if failed else error

    def lines(self, split: str) -> tuple[list[str], list[str]]:
        """Sources and references of `validation` or `test`, as plain text."""
        if split not in self.info["splits"] or split == "train":
            known = [name for name in self.splits if name != "train"]
            raise PreparedError(
                f"{self.path}: expected the text of one of the splits {known}. Received: {split!r}. Prepare it with "
                f"--{split}-source and --{split}-target."
            )
        sources, references = (self._read_lines(split, side) for side in ("source", "target"))
        return sources, references

    def summary(self, name: str | None = None) -> str:
        """Summary of the directory in a few lines, under its path or another name."""
        train, tokenizer = self.info["splits"]["train"], self.info["tokenizer"]
        dropped = ", ".join(f"{count:,} {why}" for why, count in train["cleaning"]["dropped"].items() if count)
        sizes = sorted({tokenizer["source_vocab_size"], tokenizer["target_vocab_size"]})
        lines = [
            f"{name or self.path}: {self.languages}, vocabulary " + " and ".join(f"{size:,}" for size in sizes),
            f"train: {train['pairs']:,} of {train['cleaning']['read']:,} pairs (dropped: {dropped or 'none'}), "
            f"{train['source_tokens']:,} source and {train['target_tokens']:,} target tokens",
        ]
        lines += [f"{name}: {self.info['splits'][name]['pairs']:,} pairs" for name in self.splits if name != "train"]
        return "\n".join(lines)

    def _check_size(self, shard: dict) -> None:
        path = self.path / shard["file"]
        try:
            size = path.stat().st_size
        except OSError as error:
            raise RecordError(
                f"{path}: expected a shard of records. Received: {error.strerror}; restore the file, or prepare the "
                "directory again with --overwrite."
            ) from None
        if size != shard["bytes"]:
            raise RecordError(
                f"{path}: expected {shard['bytes']} bytes, as in {INFO}. Received: {size}; it is truncated or was "
                "replaced. Restore the file, or prepare the directory again with --overwrite."
            )

    def _check_layout(self, shard: dict, id_type: str) -> None:
        check_layout(self.path / shard["file"], shard["bytes"], np.dtype(id_type).itemsize)

    def _check_content(self, name: str, expected: str) -> None:
        path = self.path / name
        try:
            found = sha256_of_file(path)
        except OSError as error:
            found = str(error.strerror)
        if found != expected:
            raise RecordError(
                f"{path}: expected the SHA-256 {expected}, as in {INFO}. Received: {found}; the file has changed. "
                "Restore it, or prepare the directory again with --overwrite."
            )

    def _read_lines(self, split: str, side: str) -> list[str]:
        path = self.path / text_name(split, side)
        expected = self.info["splits"][split]["files"][path.name]["sha256"]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise PreparedError(
                f"{path}: expected a readable file. Received: {error.strerror}. Prepare the directory again with "
                "--overwrite."
            ) from None
        if hashlib.sha256(data).hexdigest() != expected:
            raise PreparedError(
                f"{path}: expected the file as it was prepared. Received: one that has changed since. Restore it, or "
                "prepare again with --overwrite."
            )
        return data.decode().split("\n")[:-1]


def text_name(split: str, side: str) -> str:
    """The name of a plain-text file: `validation.source.txt`."""
    return f"{split}.{side}.txt"


def lengths_name(split: str) -> str:
    """The name of a split's table of lengths: `train.lengths.npy`, rows of source length, target length and pairs."""
    return f"{split}.lengths.npy"


def shard_name(split: str, number: int) -> str:
    """The name of a shard of records: `train-00000.tfrecord`."""
    return f"{split}-{number:05d}.tfrecord"


def record_origin(fingerprint: str, file: str) -> str:
    """Origin stored in the records of a shard: the dataset and the file that they belong to."""
    return f"{fingerprint}/{file}"


def read_info(directory: pathlib.Path) -> dict:
    """Read `dataset.json` of a prepared directory."""
    path = directory / INFO
    try:
        info = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise PreparedError(
            f"Expected a prepared directory. Received: {directory} without {INFO}. Run `tf-transformer prepare` first."
        ) from None
    except (ValueError, RecursionError) as error:
        raise PreparedError(f"{path}: expected JSON. Received: {error}. Prepare the directory again.") from None
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        found = info.get("format") if isinstance(info, dict) else None
        raise PreparedError(f"{path}: expected format {FORMAT}. Received: {found!r:.99}. Prepare the directory again.")
    if damaged := _damaged_field(info):
        raise PreparedError(
            f"{path}: expected what `prepare` writes. Received: another `{damaged}`. Prepare the directory again."
        )
    return info


def _damaged_field(info: dict) -> str | None:
    """The first field of `dataset.json` that has not the type it is written with; None if there is none."""
    types: dict[str, Any] = {"fingerprint": str, "inputs": dict, "tokenizer": dict, "splits": dict}
    # Data of several language pairs has no single language.
    language = str | None if "language_pairs" in info else str
    types |= {"source_language": language, "target_language": language}
    for name, kind in types.items():
        if not isinstance(info.get(name), kind):
            return name
    if not isinstance(info["tokenizer"].get("sha256"), dict):
        return "tokenizer.sha256"
    if "train" not in info["splits"]:
        return "splits.train"
    return next((f"splits.{name}" for name, split in info["splits"].items() if not _is_split(split, name)), None)


def _is_split(split: Any, name: str) -> bool:
    """Return whether this describes the files of a split: records, plain text, or both, with plain names."""
    if not isinstance(split, dict) or not isinstance(split.get("pairs"), int):
        return False
    shards, texts = split.get("shards", []), split.get("files", {})
    if not isinstance(shards, list) or not isinstance(texts, dict):
        return False
    described = [(shard.get("file"), shard) if isinstance(shard, dict) else (None, {}) for shard in shards]
    described += list(texts.items())
    for file, facts in described:
        if not isinstance(file, str) or not _FILE_NAME.fullmatch(file) or not isinstance(facts, dict):
            return False
        if not isinstance(facts.get("bytes"), int) or not isinstance(facts.get("sha256"), str):
            return False
    counted = all(isinstance(shard.get("pairs"), int) for shard in shards)
    records = split.get("id_type") in ID_TYPES and isinstance(split.get("lengths_sha256"), str)
    return counted and (records or not shards) and bool(shards or name != "train")
