"""Synthetic parallel text of any size: Zipf-distributed words in sentences of natural lengths."""

import math
import pathlib
import random

import numpy as np

_ONSETS = "b br c ch d dr f fl g gr h j k kl l m n p pr qu r s sch st t tr v w z".split()  # noqa: SIM905
_VOWELS = "a e i o u ä ö ü au ei ie".split()  # noqa: SIM905
_CODAS = ["", "", "", "n", "r", "s", "t", "l", "ng", "nd", "rt", "st", "ck"]
_BLOCK = 20_000


def _lexicon(size: int, seed: int) -> np.ndarray:
    """Distinct words; the frequent ones are short, as in languages."""
    chance = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < size:
        syllables = 1 + int(chance.expovariate(1.0) * min(2.2, 0.25 * math.log1p(len(words))))
        word = "".join(chance.choice(part) for _ in range(syllables) for part in (_ONSETS, _VOWELS, _CODAS))
        words[word.capitalize() if chance.random() < 0.15 else word] = None
    return np.array(list(words), object)


def write_parallel_text(
    directory: pathlib.Path, pairs: int, words: float = 25.0, types: int = 150_000, seed: int = 1
) -> tuple[pathlib.Path, pathlib.Path]:
    """Write `pairs` lines of about `words` words per side, and return the paths of source and target."""
    generator = np.random.default_rng(seed)
    lexicons = [_lexicon(types, seed + side) for side in range(2)]
    # Steeper than 1 / rank: with it some 1.3 subwords make a word, as in real text at the paper's vocabulary.
    cumulative = np.cumsum((np.arange(types) + 2.7) ** -1.15)
    paths = directory / "train.source", directory / "train.target"
    with paths[0].open("w", encoding="utf-8") as sources, paths[1].open("w", encoding="utf-8") as targets:
        for first in range(0, pairs, _BLOCK):
            count = min(_BLOCK, pairs - first)
            lengths = np.exp(generator.normal(np.log(words) - 0.18, 0.6, count))
            for file, lexicon, factor in ((sources, lexicons[0], 1.0), (targets, lexicons[1], 0.96)):
                own = np.maximum(1, lengths * factor * np.exp(generator.normal(0, 0.12, count))).astype(int)
                ranks = np.searchsorted(cumulative, generator.random(own.sum()) * cumulative[-1])
                file.writelines(_sentences(lexicon[ranks], own))
    return paths


def _sentences(words: np.ndarray, lengths: np.ndarray) -> list[str]:
    ends = np.cumsum(lengths).tolist()
    return [f"{' '.join(words[start:end])}.\n" for start, end in zip([0, *ends], ends)]
