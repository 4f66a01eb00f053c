"""Validation and test splits of a prepared directory: plain text, and the validation set also as records of ids."""

import itertools
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tf_transformer.data._pair_ids import PairIds
from tf_transformer.data._prepared import text_name
from tf_transformer.data.corpora import Corpus, LanguagePair, Pair
from tf_transformer.data.preparation._cleaning import CleaningReport, held_out_cleaner
from tf_transformer.data.preparation._dataset_info import file_facts
from tf_transformer.data.preparation._encoding import Encoder
from tf_transformer.data.preparation._split_records import SplitWriter


def write_texts(
    directory: pathlib.Path, corpus: Corpus, held_out: list[Pair], held_out_parts: list[int]
) -> dict[str, dict]:
    """Write validation and test as plain text; return their facts."""
    facts = {}
    for name in ("validation", "test"):
        if name in corpus.splits:
            report = CleaningReport()
            parts = [held_out_cleaner().clean(part, report) for part in _parts(corpus, name)]
            written = _write_text(directory, name, parts, corpus.languages_of(name))
            facts[name] = {**written, "cleaning": report.to_dict()}
        elif name == "validation" and held_out:
            several = corpus.languages_of("train")
            grouped = itertools.groupby(zip(held_out_parts, held_out), lambda each: each[0]) if several else ()
            runs = [(number, [pair for _, pair in group]) for number, group in grouped] or [(0, held_out)]
            languages = tuple(several[number] for number, _ in runs) if several else ()
            written = _write_text(directory, name, [pairs for _, pairs in runs], languages)
            facts[name] = {**written, "held_out_of": "train"}
    return facts


def _parts(corpus: Corpus, split: str) -> list[Iterable[Pair]]:
    """The parts of a split, one per language pair if there are several of these."""
    whole = corpus.splits[split]
    return [part for part, _ in getattr(whole, "parts", ())] if corpus.languages_of(split) else [whole]


def _write_text(
    directory: pathlib.Path, split: str, parts: Sequence[Iterable[Pair]], languages: Sequence[LanguagePair]
) -> dict[str, object]:
    paths = [directory / text_name(split, side) for side in ("source", "target")]
    counts = []
    with paths[0].open("wb") as sources, paths[1].open("wb") as targets:
        for part in parts:
            counts.append(0)
            for source, target in part:
                sources.write(source + b"\n")
                targets.write(target + b"\n")
                counts[-1] += 1
    facts: dict[str, object] = {"pairs": sum(counts), "files": {path.name: file_facts(path) for path in paths}}
    if languages:
        facts["language_pairs"] = [
            {"source": source, "target": target, "pairs": count} for (source, target), count in zip(languages, counts)
        ]
    return facts


def write_validation_records(
    directory: pathlib.Path, encoder: Encoder, dataset: str, runs: Sequence[Mapping[str, Any]] = ()
) -> dict[str, object]:
    """Write the validation set as ids, in the order of its lines; return its facts.

    Args:
        runs: "source", "target" and "pairs" of consecutive lines, of a corpus of several language pairs.
    """
    sides = (
        (directory / text_name("validation", side)).read_bytes().split(b"\n")[:-1] for side in ("source", "target")
    )
    sources, targets = (side.encode_batch(lines) for side, lines in zip((encoder.source, encoder.target), sides))
    first = 0
    for run in runs:
        last = first + run["pairs"]
        tagged = encoder.tagged(list(zip(sources[first:last], targets[first:last])), run["source"], run["target"])
        sources[first:last], targets[first:last] = [pair[0] for pair in tagged], [pair[1] for pair in tagged]
        first = last
    writer = SplitWriter(directory, "validation", 1, dataset)
    writer.write(PairIds.of(sources, targets, encoder.dtype), np.array([len(sources)]))
    return writer.close() | {"id_type": encoder.dtype.str}
