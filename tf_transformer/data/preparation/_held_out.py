"""Validation and test splits of a prepared directory: plain text, and the validation set also as records of ids."""

import pathlib
from collections.abc import Iterable

import numpy as np

from tf_transformer.data._pair_ids import PairIds
from tf_transformer.data._prepared import text_name
from tf_transformer.data.corpora import Corpus, Pair
from tf_transformer.data.preparation._cleaning import CleaningReport, held_out_cleaner
from tf_transformer.data.preparation._dataset_info import file_facts
from tf_transformer.data.preparation._encoding import Encoder
from tf_transformer.data.preparation._split_records import SplitWriter


def write_texts(directory: pathlib.Path, corpus: Corpus, held_out: list[Pair]) -> dict[str, dict]:
    """Write validation and test as plain text; return their facts."""
    facts = {}
    for name in ("validation", "test"):
        if name in corpus.splits:
            report = CleaningReport()
            pairs: Iterable[Pair] = held_out_cleaner().clean(corpus.splits[name], report)
            facts[name] = {**_write_text(directory, name, pairs), "cleaning": report.to_dict()}
        elif name == "validation" and held_out:
            facts[name] = {**_write_text(directory, name, held_out), "held_out_of": "train"}
    return facts


def _write_text(directory: pathlib.Path, split: str, pairs: Iterable[Pair]) -> dict[str, object]:
    paths = [directory / text_name(split, side) for side in ("source", "target")]
    count = 0
    with paths[0].open("wb") as sources, paths[1].open("wb") as targets:
        for source, target in pairs:
            sources.write(source + b"\n")
            targets.write(target + b"\n")
            count += 1
    return {"pairs": count, "files": {path.name: file_facts(path) for path in paths}}


def write_validation_records(directory: pathlib.Path, encoder: Encoder, dataset: str) -> dict[str, object]:
    """Write the validation set as ids, in the order of its lines; return its facts."""
    sides = (
        (directory / text_name("validation", side)).read_bytes().split(b"\n")[:-1] for side in ("source", "target")
    )
    sources, targets = (side.encode_batch(lines) for side, lines in zip((encoder.source, encoder.target), sides))
    writer = SplitWriter(directory, "validation", 1, dataset)
    writer.write(PairIds.of(sources, targets, encoder.dtype), np.array([len(sources)]))
    return writer.close() | {"id_type": encoder.dtype.str}
