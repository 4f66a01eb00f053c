"""Contents of `dataset.json`: the origin, contents and command of a dataset."""

import datetime
import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_transformer._files import sha256_of_file, write_json
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
    """The contents of `dataset.json`."""
    return {
        "format": FORMAT,
        "source_language": corpus.source_language,
        "target_language": corpus.target_language,
        **({"language_pairs": corpus.language_pairs} if corpus.language_pairs else {}),
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
    """Fingerprint of a dataset, stored in its records so that those of another dataset are detected."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def write_info(directory: pathlib.Path, info: Mapping) -> None:
    """Write `dataset.json`, the last file of a prepared directory."""
    write_json(directory / INFO, info)


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


def ratio_facts(lengths: np.ndarray, pairs: np.ndarray) -> dict[str, float]:
    """Target length by source length: `ratio` · S + x · √S tokens, where x is from `low` to `high` in 99.9 % of pairs.

    Args:
        lengths: (N, 2), of source and target.
        pairs: (N,), how many pairs have them.
    """
    if not pairs.sum():
        return {}
    source, target = lengths.T.astype(float)
    ratio = float(target @ pairs / (source @ pairs))
    spread = (target - ratio * source) / np.sqrt(source)
    order = np.argsort(spread, kind="stable")
    below = np.cumsum(pairs[order])
    low, high = (spread[order][np.searchsorted(below, share * below[-1])] for share in (0.0005, 0.9995))
    return {"ratio": round(ratio, 4), "low": round(float(low), 4), "high": round(float(high), 4)}


def differences(info: Mapping, corpus: Corpus, inputs: Mapping[str, object]) -> list[str]:
    """Differences between a prepared directory and the new inputs, each as `name: old → new`.

    Args:
        info: `dataset.json` of the directory.
        corpus: to be prepared.
        inputs: to be prepared with, as in `describe`.
    """
    old, new = dict(info["inputs"]), dict(inputs)
    corpora = old.pop("corpus", None), new.pop("corpus", None)
    old["tokenizer"], new["tokenizer"] = _origin(old.get("tokenizer")), _origin(new.get("tokenizer"))
    changed = _changed(old, new)
    if corpora[0] != corpora[1]:
        changed = (_changed(_corpus_facts(info), _corpus_facts_of(corpus)) or ["the corpus"]) + changed
    return changed


def _changed(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    names: Sequence[str] = [*new, *(name for name in old if name not in new)]
    return [f"{name}: {_shown(old, name)} → {_shown(new, name)}" for name in names if old.get(name) != new.get(name)]


def _shown(facts: Mapping[str, object], name: str) -> str:
    return str(facts[name]) if name in facts else "none"


def _origin(sha256: Any) -> str:
    if sha256 is None:
        return "trained on the corpus"
    return f"given ({' and '.join(map(_short, sha256.values()))})"


def _corpus_facts(info: Mapping) -> dict[str, object]:
    splits = [name for name, split in info["splits"].items() if "held_out_of" not in split]
    pairs = info.get("language_pairs") or [(info["source_language"], info["target_language"])]
    languages = ", ".join(f"{source} to {target}" for source, target in pairs)
    return {"data": info["corpus"]["spec"], "languages": languages, "splits": ", ".join(splits)} | _flat(
        info["corpus"]["identity"]
    )


def _corpus_facts_of(corpus: Corpus) -> dict[str, object]:
    facts = {"data": corpus.spec, "languages": corpus.languages, "splits": ", ".join(corpus.splits)}
    return facts | _flat(json.loads(json.dumps(corpus.identity)))


def _flat(values: Mapping, prefix: str = "") -> dict[str, object]:
    """Nested facts by dotted name; those of a file in one text."""
    if "sha256" in values:
        shown = {name: value for name, value in values.items() if name != "sha256"}
        text = " ".join(f"{value:,} {name}" if isinstance(value, int) else str(value) for name, value in shown.items())
        return {prefix: f"{text} (SHA-256 {_short(values['sha256'])})"}
    flat: dict[str, object] = {}
    for name, value in values.items():
        path = f"{prefix}.{name}" if prefix else name
        flat |= _flat(value, path) if isinstance(value, Mapping) else {path: value}
    return flat


def _short(sha256: str) -> str:
    return f"{sha256[:8]}…"
