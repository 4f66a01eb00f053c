"""What `dataset.json` says: where a dataset came from, what it holds, and what made it."""

import datetime
import hashlib
import json
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from tf_transformer._files import sha256_of_file
from tf_transformer._version import versions_of
from tf_transformer.data._prepared import FORMAT, INFO
from tf_transformer.data.corpora import Corpus
from tf_transformer.text import TokenizerPair

_PACKAGES = ("sentencepiece", "tensorflow", "tensorflow-text", "tensorflow-datasets", "numpy")


def describe(
    corpus: Corpus,
    inputs: Mapping[str, object],
    tokenizers: TokenizerPair,
    trained_on_pairs: int,
    splits: Mapping[str, Mapping],
    command: str,
) -> dict:
    """The whole of `dataset.json`."""
    return {
        "format": FORMAT,
        "source_language": corpus.source_language,
        "target_language": corpus.target_language,
        "corpus": {"spec": corpus.spec, "identity": corpus.identity},
        "inputs": inputs,
        "fingerprint": fingerprint(inputs),
        "tokenizer": {
            "shared": tokenizers.shared,
            "source_vocab_size": tokenizers.source.vocab_size,
            "target_vocab_size": tokenizers.target.vocab_size,
            "sha256": tokenizers.sha256,
            "trained_on_pairs": trained_on_pairs,
        },
        "splits": splits,
        "command": command,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": versions_of(*_PACKAGES),
    }


def fingerprint(inputs: Mapping[str, object]) -> str:
    """A short name of a dataset: its records carry it, so that those of another dataset are noticed."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def write_info(directory: pathlib.Path, info: Mapping) -> None:
    """Writes `dataset.json`, through to the disk: it is the last file, and stands for all others."""
    with (directory / INFO).open("w", encoding="utf-8") as file:
        json.dump(info, file, indent=2, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def file_facts(path: pathlib.Path) -> dict[str, object]:
    """Size and sha256 of a file."""
    return {"bytes": path.stat().st_size, "sha256": sha256_of_file(path)}


def length_facts(histogram: np.ndarray) -> dict[str, float]:
    """Mean, percentiles and maximum of lengths, from how often each occurs."""
    total = int(histogram.sum())
    if not total:
        return {}
    below = np.cumsum(histogram)
    percentiles = {f"p{p}": int(np.searchsorted(below, total * p / 100)) for p in (50, 90, 99)}
    mean = float(histogram @ np.arange(len(histogram))) / total
    return {"mean": round(mean, 2), **percentiles, "max": int(np.flatnonzero(histogram)[-1])}


def differences(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """The inputs that differ, each as `name: old → new`."""
    names: Sequence[str] = [*new, *(name for name in old if name not in new)]
    return [f"{name}: {old.get(name)!r} → {new.get(name)!r}" for name in names if old.get(name) != new.get(name)]
