"""Marks behind words that say which words of both languages translate each other, for gold alignments.

A mark is a private-use character behind a word. Words of the two sides that share a mark are linked: surely, or
possibly where one of the marks is followed by POSSIBLE. Words are marked only within `marking()`; elsewhere the
functions here return text without marks.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator

POSSIBLE = "\U0010fffd"
_FIRST, _COUNT = 0xF0000, 0xFFF0
MARKS = f"[{chr(_FIRST)}-{chr(_FIRST + _COUNT)}{POSSIBLE}]"
_PUNCTUATED = re.compile(r"(.*?)([,.!?]*)", re.DOTALL)

_marking = False
_numbers = itertools.count()


@contextlib.contextmanager
def marking() -> Iterator[None]:
    """Within it, `mark` and `phrase` mark words."""
    global _marking
    before, _marking = _marking, True
    try:
        yield
    finally:
        _marking = before


def new_marks(count: int) -> tuple[str, ...]:
    """Marks that no other part of a sentence has."""
    return tuple(chr(_FIRST + number % _COUNT) for number in itertools.islice(_numbers, count))


def possible(mark: str) -> str:
    """The mark of a word that only possibly translates the other words with it."""
    return mark + POSSIBLE


def mark(text: str, *marks: str) -> str:
    """The text with marks behind each of its words, before punctuation."""
    if not _marking or not text:
        return text
    return " ".join(_marked(word, "".join(marks)) for word in text.split(" "))


def _marked(word: str, marks: str) -> str:
    stem, punctuation = _PUNCTUATED.fullmatch(word).groups()
    return stem + marks + punctuation if stem else punctuation + marks


def phrase(english: str, german: str, links: str = "") -> tuple[str, str]:
    """Both texts, their words marked by links such as "0-0 1-2?", where "?" is a possible link.

    Without `links`, the words correspond in order, or all to the only word of the other side.
    """
    if not _marking:
        return english, german
    sides = [text.split(" ") if text else [] for text in (english, german)]
    marked = [[""] * len(words) for words in sides]
    for pair in links.split() or _in_order(*map(len, sides)):
        mark = new_marks(1)[0] + (POSSIBLE if pair.endswith("?") else "")
        for places, place in zip(marked, pair.rstrip("?").split("-")):
            places[int(place)] += mark
    texts = [" ".join(map(_marked, words, marks)) for words, marks in zip(sides, marked)]
    return texts[0], texts[1]


def _in_order(english: int, german: int) -> list[str]:
    if english != german and 1 not in (english, german):
        raise ValueError(f"Expected links for {english} English and {german} German words. Received: none.")
    return [f"{min(i, english - 1)}-{min(i, german - 1)}" for i in range(max(english, german) if german else 0)]


def plain(text: str) -> str:
    """The text without marks."""
    return re.sub(f"{MARKS}+", "", text)


def marks_of(text: str) -> Iterator[tuple[int, str, bool]]:
    """The marks of a text: the place in the plain text of the character before each, the mark, whether it is sure."""
    place = 0
    for index, character in enumerate(text):
        if not re.match(MARKS, character):
            place += 1
        elif character != POSSIBLE:
            yield place - 1, character, text[index + 1 : index + 2] != POSSIBLE
