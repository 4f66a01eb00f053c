"""A prepared directory, opened: what `prepare` wrote and training, evaluation and export read.

dataset.json              languages, counts, drops, lengths, hashes, the command
tokenizer.model           or source.model and target.model
train-00000.tfrecord …    records of ids, each with its .lengths.npy
validation.source.txt …   validation and test as plain text
"""

import functools
import hashlib
import json
import os
import pathlib

from tf_transformer.data._assembly import ShardedExamples, SpecialIds
from tf_transformer.data._records import RecordError, Shard
from tf_transformer.text import TokenizerPair, load_tokenizers

INFO = "dataset.json"
FORMAT = 1


class PreparedError(ValueError):
    """A directory that is not, or not wholly, what `prepare` writes."""


class PreparedDataset:
    """The dataset in a prepared directory. Nothing but `dataset.json` is read until it is asked for.

    Args:
        path: the directory.

    Attributes:
        info: what `dataset.json` says.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        self.info = read_info(self.path)

    @property
    def source_language(self) -> str:
        return self.info["source_language"]

    @property
    def target_language(self) -> str:
        return self.info["target_language"]

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
                f"{self.path}: expected the tokenizer that made the records (sha256 {expected}), found "
                f"{tokenizers.sha256}; restore its files, or prepare the directory again with --overwrite"
            )
        return tokenizers

    @functools.cached_property
    def special_ids(self) -> SpecialIds:
        source, target = self.tokenizers.source, self.tokenizers.target
        return SpecialIds(source.pad_id, target.pad_id, target.bos_id)

    @functools.cached_property
    def examples(self) -> ShardedExamples:
        """The training pairs as ids."""
        train = self.info["splits"]["train"]
        shards = [Shard(self.path / shard["file"], train["id_type"]) for shard in train["shards"]]
        examples = ShardedExamples(shards)
        if len(examples) != train["pairs"]:
            raise RecordError(
                f"{self.path}: expected {train['pairs']} training pairs, its shards have {len(examples)}; "
                "prepare it again with --overwrite"
            )
        return examples

    def lines(self, split: str) -> tuple[list[str], list[str]]:
        """Sources and references of `validation` or `test`, as plain text."""
        if split not in self.info["splits"] or split == "train":
            known = [name for name in self.splits if name != "train"]
            raise PreparedError(
                f"{self.path} has no text of a split {split!r}, only of {known}; prepare it with "
                f"--{split}-source and --{split}-target"
            )
        sources, references = (self._read_lines(split, side) for side in ("source", "target"))
        return sources, references

    def summary(self) -> str:
        """What the directory holds, in a few lines."""
        train, tokenizer = self.info["splits"]["train"], self.info["tokenizer"]
        dropped = ", ".join(f"{count:,} {why}" for why, count in train["cleaning"]["dropped"].items() if count)
        sizes = sorted({tokenizer["source_vocab_size"], tokenizer["target_vocab_size"]})
        lines = [
            f"{self.path}: {self.source_language} to {self.target_language}, vocabulary "
            + " and ".join(f"{size:,}" for size in sizes),
            f"train: {train['pairs']:,} of {train['cleaning']['read']:,} pairs (dropped: {dropped or 'none'}), "
            f"{train['source_tokens']:,} source and {train['target_tokens']:,} target tokens",
        ]
        lines += [f"{name}: {self.info['splits'][name]['pairs']:,} pairs" for name in self.splits if name != "train"]
        return "\n".join(lines)

    def _read_lines(self, split: str, side: str) -> list[str]:
        path = self.path / text_name(split, side)
        expected = self.info["splits"][split]["files"][path.name]["sha256"]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise PreparedError(
                f"{path}: cannot be read ({error.strerror}); prepare the directory again with --overwrite"
            ) from None
        if hashlib.sha256(data).hexdigest() != expected:
            raise PreparedError(
                f"{path}: it has changed since it was prepared; restore it, or prepare again with --overwrite"
            )
        return data.decode().split("\n")[:-1]


def text_name(split: str, side: str) -> str:
    """The name of a plain-text file: `validation.source.txt`."""
    return f"{split}.{side}.txt"


def read_info(directory: pathlib.Path) -> dict:
    """What `dataset.json` of a prepared directory says."""
    path = directory / INFO
    try:
        info = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise PreparedError(
            f"expected a prepared directory, found no {INFO} in {directory}; make it with `tf-transformer prepare`"
        ) from None
    except ValueError as error:
        raise PreparedError(f"{path}: not JSON ({error}); prepare the directory again") from None
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        found = info.get("format") if isinstance(info, dict) else None
        raise PreparedError(f"{path}: expected format {FORMAT}, found {found}; prepare the directory again")
    return info
