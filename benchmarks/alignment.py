"""Alignment error rate of a model's word links on the phrasebook, beside eflomal, and what the confidences tell.

    tf-transformer demo
    pip install eflomal
    python -m benchmarks.alignment --workdir runs/demo/run

The gold alignments are the grammar's. Heads are compared on the validation split, and measured on the test split with
the reference translations: `aer` of the default heads, of those that `attention --choose-alignment` chooses without
gold alignments (`agreement`), and with them (`gold`). eflomal is trained on all pairs of the phrasebook, lower-cased,
and its two directions are combined in the usual ways. `confidence_auc` is the probability that a correct target word
of the model's own translations has a higher confidence than a wrong one: a word is correct if it is in the longest
matching blocks with the reference. `milliseconds` are per sentence of the test split.
"""

import argparse
import dataclasses
import difflib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from tf_transformer.analysis.attention import compare_alignment_heads
from tf_transformer.data import open_corpus
from tf_transformer.data.corpora import AlignedPair, phrasebook_alignments
from tf_transformer.decoding import Translator
from tf_transformer.evaluation import alignment_score
from tf_transformer.text import split_words
from tf_transformer.workdir import Workdir

Links = list[set[tuple[int, int]]]

_EFLOMAL = """
import io, sys, eflomal
source, target, forward, backward = sys.argv[1:]
texts = [io.StringIO(open(name, encoding="utf-8").read()) for name in (source, target)]
eflomal.Aligner().align(*texts, links_filename_fwd=forward, links_filename_rev=backward)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workdir", required=True, help="work directory of a model of the phrasebook")
    parser.add_argument("--checkpoint", default="auto")
    parser.add_argument("--eflomal-python", default=sys.executable, help="Python that has eflomal; '' leaves it out")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    workdir = Workdir(args.workdir)
    languages = [workdir.dataset_info[f"{side}_language"] for side in ("source", "target")]
    splits = {name: phrasebook_alignments(name, *languages) for name in ("validation", "test")}
    figures = measure_model(workdir, args.checkpoint, splits)
    if args.eflomal_python:
        figures |= measure_eflomal(args.eflomal_python, splits["test"], languages)
    print(json.dumps(figures) if args.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


def measure_model(workdir: Workdir, checkpoint: str, splits: dict[str, list[AlignedPair]]) -> dict:
    figures: dict = {}
    model, tokenizers = workdir.load_model(checkpoint, for_inference=True), workdir.tokenizers
    decoding = dataclasses.replace(workdir.config.decoding, alignment_heads="")
    validation, test = splits["validation"], splits["test"]
    pairs = [(pair.source, pair.target) for pair in validation]
    gold = [(pair.sure, pair.possible) for pair in validation]
    chosen = {
        "default": "",
        "agreement": compare_alignment_heads(model, tokenizers, pairs)[0].heads,
        "gold": compare_alignment_heads(model, tokenizers, pairs, gold)[0].heads,
    }
    for name, heads in chosen.items():
        translator = Translator(model, tokenizers, dataclasses.replace(decoding, alignment_heads=heads))
        found = translator.align([pair.source for pair in test], [pair.target for pair in test])
        figures |= _scores(f"{name}_", [set(each.links) for each in found], test) | {f"{name}_heads": heads}
    translator = Translator(model, tokenizers, decoding)
    return figures | _speed(translator, test) | _confidence(translator, test)


def _scores(name: str, links: Links, test: list[AlignedPair]) -> dict[str, float]:
    score = alignment_score(links, [pair.sure for pair in test], [pair.possible for pair in test])
    return {
        f"{name}aer": round(score.error_rate, 4),
        f"{name}precision": round(score.precision, 4),
        f"{name}recall": round(score.recall, 4),
    }


def _speed(translator: Translator, test: list[AlignedPair]) -> dict[str, float]:
    texts = [pair.source for pair in test]
    figures = {}
    for name, call in (("translate", translator), ("align", translator.align)):
        call(texts[:64])
        began = time.perf_counter()
        call(texts)
        figures[f"{name}_milliseconds"] = round(1000 * (time.perf_counter() - began) / len(texts), 2)
    return figures


def _confidence(translator: Translator, test: list[AlignedPair]) -> dict[str, float]:
    found = translator.align([pair.source for pair in test])
    references = split_words([pair.target for pair in test])
    values, right = [], []
    for each, reference in zip(found, references):
        values += each.confidences
        right += matched([word.text for word in each.target], [word.text for word in reference])
    figures = {"target_words": len(right), "wrong_words": right.count(False)}
    return figures | {"confidence_auc": round(area_under_curve(values, right), 4)}


def matched(words: list[str], reference: list[str]) -> list[bool]:
    """Which words are in the longest matching blocks of the two lists."""
    right = [False] * len(words)
    for block in difflib.SequenceMatcher(None, words, reference, autojunk=False).get_matching_blocks():
        right[block.a : block.a + block.size] = [True] * block.size
    return right


def area_under_curve(values: list[float], right: list[bool]) -> float:
    """The probability that the value of something right is above that of something wrong; NaN if one is missing."""
    ordered = np.sort(np.asarray(values)[np.logical_not(right)])
    good = np.asarray(values)[np.asarray(right)]
    if not len(ordered) or not len(good):
        return float("nan")
    below, upto = np.searchsorted(ordered, good, "left"), np.searchsorted(ordered, good, "right")
    return float((below + upto).mean() / 2 / len(ordered))


def measure_eflomal(python: str, test: list[AlignedPair], languages: list[str]) -> dict:
    """AER of eflomal, trained on all pairs: each direction, and their combinations."""
    pairs = [(pair.source, pair.target) for pair in test]
    corpus = open_corpus("phrasebook", source_language=languages[0], target_language=languages[1])
    for name in ("validation", "train"):
        pairs += [(source.decode(), target.decode()) for source, target in corpus.splits[name]]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        names = [str(pathlib.Path(folder, name)) for name in ("source", "target", "forward", "backward")]
        for name, side in zip(names, zip(*pairs)):
            lines = (" ".join(word.text for word in words) for words in split_words(side))
            pathlib.Path(name).write_text("\n".join(lines).lower() + "\n", encoding="utf-8")
        done = subprocess.run([python, "-c", _EFLOMAL, *names], capture_output=True, text=True)
        if done.returncode:
            return {"eflomal": f"not run: {(done.stderr.strip().splitlines() or ['?'])[-1]}"}
        texts = [pathlib.Path(name).read_text(encoding="utf-8") for name in names[2:]]
    forward, backward = ([_read_links(line) for line in text.splitlines()[: len(test)]] for text in texts)
    combined = {
        "forward": forward,
        "backward": backward,
        "intersection": [one & other for one, other in zip(forward, backward)],
        "union": [one | other for one, other in zip(forward, backward)],
        "grow_diag_final_and": [grow_diag_final_and(one, other) for one, other in zip(forward, backward)],
    }
    figures = {f"eflomal_{name}_aer": _scores("", links, test)["aer"] for name, links in combined.items()}
    return figures | {"eflomal_seconds": round(time.perf_counter() - began, 1)}


def _read_links(line: str) -> set[tuple[int, int]]:
    return {(int(source), int(target)) for source, target in (part.split("-") for part in line.split())}


def grow_diag_final_and(forward: set, backward: set) -> set[tuple[int, int]]:
    """The usual combination of two directions (Koehn et al. 2005)."""
    links, union = forward & backward, forward | backward
    near = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    grown = True
    while grown:
        grown = False
        for source, target in sorted(links):
            for link in ((source + i, target + j) for i, j in near):
                if link in union - links and _is_free(link, links, any):
                    links.add(link)
                    grown = True
    for direction in (forward, backward):
        for link in sorted(direction - links):
            if _is_free(link, links, all):
                links.add(link)
    return links


def _is_free(link: tuple[int, int], links: set, quantifier) -> bool:
    """Whether any, or all, of the two words of a link have no link yet."""
    return quantifier([all(link[side] != other[side] for other in links) for side in (0, 1)])


if __name__ == "__main__":
    main()
