"""Boundary F1 and speed of sentence segmentation, beside the Moses sentence splitter and pySBD.

    pip install 'tf_transformer[bench]'
    python -m benchmarks.segmentation --data DIR

DIR has `wmt/newstest2013.{en,de,fr}` and `tatoeba_ende/test.{en,de}`, one sentence per line. Lines are joined with
spaces into paragraphs of 2 to 8; the places where they were joined are the boundaries to find. Two facts limit every
splitter: some lines hold several sentences, and some (headlines) end without punctuation. So F1 is also given for
lines that end with sentence punctuation (`ended_f1`). `second_half_f1` is of the second half of the lines, not
looked at when the rules were written, except that of German headlines. Without --data the sentences are those of the
phrasebook.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from tf_transformer.data import open_corpus
from tf_transformer.text import Segmenter, join_segments, split_long_sentences, train_tokenizer

FILES = ["wmt/newstest2013.en", "wmt/newstest2013.de", "wmt/newstest2013.fr"]
FILES += ["tatoeba_ende/test.en", "tatoeba_ende/test.de"]
_STOPS = (".", "!", "?", "…")
_CLOSERS = "\"'”’“»)] \u00a0"

Paragraphs = list[list[str]]
Splitter = Callable[[Sequence[str]], list[list[str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, help="a directory with the files named above")
    parser.add_argument("--seed", type=int, default=1, help="of the sizes of the paragraphs")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures: dict = {}
    for name, lines in _corpora(args.data).items():
        figures |= {f"{name}_{figure}": value for figure, value in measure(name, lines, args.seed).items()}
    figures |= measure_large_row()
    print(json.dumps(figures) if args.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


def _corpora(data: pathlib.Path | None) -> dict[str, list[str]]:
    """Sentences by name; a name ends in its language."""
    if data is None:
        pairs = list(open_corpus("phrasebook").splits["test"])
        return {
            "phrasebook.en": [pair[0].decode() for pair in pairs],
            "phrasebook.de": [pair[1].decode() for pair in pairs],
        }
    found = {
        name.replace("wmt/", "").replace("_ende/test", ""): (data / name).read_text(encoding="utf-8").splitlines()
        for name in FILES
    }
    return {name: [line.strip() for line in lines if line.strip()] for name, lines in found.items()}


def measure(name: str, lines: list[str], seed: int) -> dict:
    language = name.rpartition(".")[2]
    splitters = {"ours": _ours(language), **_peers(language)}
    ended = [line for line in lines if line.rstrip(_CLOSERS).endswith(_STOPS)]
    sets = {"": lines, "ended_": ended, "second_half_": lines[len(lines) // 2 :]}
    figures: dict = {"lines": len(lines), "ended_lines": len(ended)}
    speeds = {}
    for label, split in splitters.items():
        split(["Warm up. Then measure."])
        for prefix, chosen in sets.items():
            paragraphs = _paragraphs(chosen, seed)
            texts = [" ".join(paragraph) for paragraph in paragraphs]
            begun = time.perf_counter()
            found = split(texts)
            seconds = time.perf_counter() - begun
            if not prefix:
                speeds[label] = sum(len(text.encode()) for text in texts) / 1e6 / seconds
            scores = _scores(paragraphs, found)
            figures |= {f"{prefix}{key}_{label}": scores[key] for key in scores if key == "f1" or not prefix}
    figures |= {f"mb_per_second_{label}": round(speed, 2) for label, speed in speeds.items()}
    return figures | {f"ratio_{peer}": round(speeds["ours"] / speeds[peer], 1) for peer in speeds if peer != "ours"}


def _paragraphs(lines: list[str], seed: int) -> Paragraphs:
    chance, found, first = random.Random(seed), [], 0
    while first < len(lines):
        size = chance.randint(2, 8)
        found.append(lines[first : first + size])
        first += size
    return found


def _scores(expected: Paragraphs, found: Paragraphs) -> dict[str, float]:
    """Precision, recall and F1 of the boundaries, counted over all paragraphs."""
    both = wanted = given = 0
    for paragraph, parts in zip(expected, found, strict=True):
        right, guess = _boundaries(paragraph), _boundaries(parts)
        both, wanted, given = both + len(right & guess), wanted + len(right), given + len(guess)
    precision, recall = both / max(given, 1), both / max(wanted, 1)
    return {
        "f1": round(2 * both / max(wanted + given, 1), 4),
        "precision": round(precision, 4),
        "recall": round(recall, 4),
    }


def _boundaries(parts: list[str]) -> set[int]:
    """Ends of the parts, as the number of characters before it that are not space: splitters differ in the space."""
    ends, count = set(), 0
    for part in parts:
        count += len("".join(part.split()))
        ends.add(count)
    return ends - {count, 0}


def _ours(language: str) -> Splitter:
    segmenter = Segmenter(language)
    call = tf.function(segmenter.segment, [tf.TensorSpec([None], tf.string)], autograph=False)

    def split(texts: Sequence[str]) -> list[list[str]]:
        found = call(tf.constant(list(texts)))
        rows = zip(found.separators.to_list(), found.sentences.to_list())
        # Separators may hold bullets, which count as text here.
        return [[(before + sentence).decode() for before, sentence in zip(*row)] for row in rows]

    return split


def _peers(language: str) -> dict[str, Splitter]:
    try:
        import pysbd
        from sentence_splitter import SentenceSplitter
    except ImportError as error:
        raise SystemExit(
            f"{error.name} is missing: install the peers with `pip install 'tf_transformer[bench]'`."
        ) from None
    moses, sbd = SentenceSplitter(language), pysbd.Segmenter(language=language, clean=False)
    return {
        "moses": lambda texts: [moses.split(text) for text in texts],
        "pysbd": lambda texts: [sbd.segment(text) for text in texts],
    }


def measure_large_row(size: int = 5_000_000, limit: int = 256) -> dict:
    """Seconds and growth of the peak memory for one row of 5 MB, split into sentences of at most `limit` tokens."""
    segmenter = Segmenter()
    tokenizer = train_tokenizer([pair[0] for pair in open_corpus("phrasebook").splits["test"]], 300, exact=False)

    def split(text):
        return join_segments(split_long_sentences(segmenter.segment(text), tokenizer, limit)[0])

    call = tf.function(split, [tf.TensorSpec([None], tf.string)], autograph=False)
    call(tf.constant(["Warm up."]))
    figures: dict = {}
    units = {"sentences": b"One sentence of a text. ", "words": b"a word ", "letters": b"a", "stops": b". "}
    for name, unit in units.items():
        row = tf.constant([unit * (size // len(unit))])
        before, begun = _peak_megabytes(), time.perf_counter()
        call(row)
        figures[f"row_of_5_mb_{name}_seconds"] = round(time.perf_counter() - begun, 2)
        figures[f"row_of_5_mb_{name}_more_peak_mb"] = round(_peak_megabytes() - before)
    return figures


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    main()
