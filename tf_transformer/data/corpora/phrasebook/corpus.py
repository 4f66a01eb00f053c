"""The phrasebook as a corpus: distinct pairs from a seed, none of the test sentences in train."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tf_transformer.data.corpora._corpus import Corpus, Pair, direction
from tf_transformer.data.corpora.phrasebook import complex_sentences, descriptions, fragments, questions, statements
from tf_transformer.data.corpora.phrasebook.clause import Phrase
from tf_transformer.data.corpora.phrasebook.dice import Dice, weighted
from tf_transformer.data.corpora.phrasebook.marks import marking, marks_of, phrase, plain

# Raised whenever grammar or lexicon change, so that a prepared directory of the old sentences is known as such.
VERSION = 1
SIZES = {"train": 63_000, "validation": 1_500, "test": 1_500}
# Never to be trained on: the sentence the demo asks a trained model for.
HELD_OUT: tuple[Phrase, ...] = (("seven old bakers", "sieben alte Bäcker"),)

_TEMPLATES = weighted(
    {
        fragments.things: 20,
        fragments.prepositions: 6,
        fragments.numbers: 2,
        fragments.times: 1,
        fragments.dates: 2,
        statements.present: 18,
        statements.negation: 9,
        statements.past: 12,
        statements.modal: 11,
        statements.liking: 2,
        statements.possession: 2,
        statements.dwelling: 1,
        descriptions.quality: 4,
        descriptions.comparison: 3,
        descriptions.age: 1,
        descriptions.price: 1,
        descriptions.existence: 2,
        descriptions.position: 2,
        complex_sentences.reported: 4,
        complex_sentences.reason: 3,
        complex_sentences.condition: 3,
        complex_sentences.relative: 2,
        complex_sentences.attempt: 2,
        complex_sentences.purpose: 1,
        questions.yes_or_no: 4,
        questions.when_or_why: 2,
        questions.where: 1,
        questions.what: 1,
        questions.whom: 1,
        questions.who: 1,
        questions.which_or_how_many: 2,
        questions.at_the_counter: 1,
        questions.request: 2,
    }
)


def phrases(seed: int) -> Iterator[Phrase]:
    """English and German phrases without end; the same English may come again, always with the same German."""
    dice = Dice(seed)
    while True:
        yield dice.pick(_TEMPLATES)(dice)


def _marked_phrases(seed: int) -> Iterator[Phrase]:
    """The phrases that are held out and those of `phrases`, with marks."""
    dice = Dice(seed)
    with marking():
        held_out = [phrase(*pair) for pair in HELD_OUT]
    yield from held_out
    while True:
        with marking():
            pair = dice.pick(_TEMPLATES)(dice)
        yield pair


@lru_cache(maxsize=2)
def _pairs(seed: int) -> dict[str, tuple[Phrase, ...]]:
    """The phrases of each split. Neither an English nor a German side occurs twice, so no split leaks into another."""
    pairs = list(HELD_OUT)
    english_sides = {english for english, _ in pairs}
    german_sides = {german for _, german in pairs}
    for english, german in phrases(seed):
        if len(pairs) == sum(SIZES.values()):
            break
        if english not in english_sides and german not in german_sides:
            english_sides.add(english)
            german_sides.add(german)
            pairs.append((english, german))
    # The pairs are in random order already, apart from the held-out ones, which begin the test split.
    splits, start = {}, 0
    for name in ("test", "validation", "train"):
        splits[name] = tuple(pairs[start : start + SIZES[name]])
        start += SIZES[name]
    return splits


class AlignedPair(NamedTuple):
    """A sentence pair with gold alignment.

    source, target: the sentences.
    sure, possible: links as pairs of numbers of words (see `text.split_words`), the source's first; all sure ones are
        possible ones, too.
    """

    source: str
    target: str
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


def phrasebook_alignments(
    split: str = "test", source_language: str | None = None, target_language: str | None = None, seed: int = 0
) -> list[AlignedPair]:
    """The pairs of a split of the phrasebook, in order, with the alignment of their words.

    Words that translate each other are surely linked; auxiliaries, articles and particles that have no counterpart are
    possibly linked to what they belong to.
    """
    from tf_transformer.text import split_words

    corpus = open_phrasebook(source_language, target_language, seed)
    wanted = set(_pairs(seed)[split])
    marked: dict[Phrase, Phrase] = {}
    for pair in _marked_phrases(seed):
        sides = plain(pair[0]), plain(pair[1])
        if sides in wanted:
            marked.setdefault(sides, pair)
            if len(marked) == len(wanted):
                break
    order = (1, 0) if corpus.source_language == "de" else (0, 1)
    pairs = [[marked[sides][side] for side in order] for sides in _pairs(seed)[split]]
    words = [split_words(plain(pair[side]) for pair in pairs) for side in (0, 1)]
    return [
        AlignedPair(plain(source), plain(target), *_links(_places(source, one), _places(target, other)))
        for (source, target), one, other in zip(pairs, *words)
    ]


def _places(text: str, words: list) -> list[tuple[str, bool, int]]:
    """The marks of a text, whether each is sure, and the number of its word."""
    return [
        (mark, sure, next(number for number, word in enumerate(words) if word.start <= place < word.end))
        for place, mark, sure in marks_of(text)
    ]


def _links(source: list[tuple[str, bool, int]], target: list[tuple[str, bool, int]]) -> tuple[frozenset, frozenset]:
    """Sure and possible links."""
    found = [((i, j), one and other) for mark, one, i in source for same, other, j in target if mark == same]
    return frozenset(link for link, sure in found if sure), frozenset(link for link, _ in found)


@dataclass(frozen=True)
class PhrasebookSplit:
    """The pairs of one split, made up on first use."""

    name: str
    seed: int
    reverse: bool

    @property
    def count(self) -> int:
        return SIZES[self.name]

    def __iter__(self) -> Iterator[Pair]:
        for english, german in _pairs(self.seed)[self.name]:
            pair = english.encode(), german.encode()
            yield pair[::-1] if self.reverse else pair


def open_phrasebook(source_language: str | None = None, target_language: str | None = None, seed: int = 0) -> Corpus:
    """The phrasebook, English to German unless the languages say otherwise."""
    source, target = direction("phrasebook", ("en", "de"), source_language, target_language)
    splits = {name: PhrasebookSplit(name, seed, reverse=source == "de") for name in SIZES}
    return Corpus("phrasebook", source, target, splits, {"version": VERSION, "seed": seed, "sizes": dict(SIZES)})
