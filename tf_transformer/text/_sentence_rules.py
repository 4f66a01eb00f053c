"""Rules of sentence segmentation: an ordered list of RE2 substitutions, and the word lists of each language.

The rules put marks into the text. Marks are Unicode noncharacters, which no text contains: see `Segmenter`.

    BREAK   a sentence ends here
    MAYBE   a sentence ends here if the next word is one that often begins a sentence
    KEEP    a period that belongs to a number, not to a bullet
    EDGE    between a separator and a sentence, on both sides

RE2 has no look-around, so a rule that depends on the text before a mark ends with the mark, and a rule that depends on
the text behind a mark begins with it: two neighbouring marks are then found by the same pass.
"""

import collections
import functools
import importlib.resources
import re
from collections.abc import Iterable
from typing import NamedTuple

BREAK, MAYBE, KEEP, EDGE = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3"
MARKS = f"{BREAK}-{EDGE}"

SPACE = r"[\s\x1c-\x1f\x{85}\p{Z}]"
LINE_BREAK = r"[\n\r\x0b\x0c\x1c-\x1e\x{85}\x{2028}\x{2029}]"
# Where words are set apart by spaces, a sentence ends in one of these and a space; elsewhere no space is needed.
_STOPS = ".!?…؟۔।॥։።፧᙮᠃᠉‼⁇⁈⁉\u037e"
_WIDE_STOPS = "。！？｡．︒︕︖"
_CLOSERS = r"""["'”’“‘»«›‹)\]}）」』】〉》〕］｝＂＇*_]"""
_OPENERS = r"""["'“”‘’„‚«»‹›(\[{（「『【〈《〔［｛¿¡*_]"""
_BULLET_SPACE = r"[ \t\x{A0}\x{202F}]+"
_BULLET = rf"(?:(?:[-*+>•‣◦▪▫●○■□·–—⁃∙➢➤✓✔]|#{{1,6}}|\(?[0-9]{{1,3}}\)|\(?[A-Za-z]\)){_BULLET_SPACE})"
_NUMBER = rf"(?:[0-9]{{1,3}}\.{_BULLET_SPACE})"
_START = r"(^|[^\p{L}\p{N}])"


class Rule(NamedTuple):
    """A substitution: every match of `pattern` becomes `rewrite`, in RE2's syntax."""

    pattern: str
    rewrite: str


class Words(NamedTuple):
    """The words of a language, without their last period.

    abbreviations: do not end a sentence.
    maybe: abbreviations that end a sentence if one of `starts` follows.
    numbered: abbreviations that do not end a sentence before a number.
    starts: words that often begin a sentence and seldom follow an abbreviation in one.
    months: their names where they follow the number of a day.
    headlines: words that begin a sentence wherever they have a capital letter: what stands before is a headline.
    titled: nouns, also as the ends of compounds, that a title follows ("der Film Das Boot").
    ordinals: whether a number with a period is an ordinal number ("3. Oktober").
    semicolons: whether a semicolon ends a question.
    """

    abbreviations: frozenset[str]
    maybe: frozenset[str]
    numbered: frozenset[str]
    starts: frozenset[str]
    months: frozenset[str]
    headlines: frozenset[str]
    titled: frozenset[str]
    ordinals: bool
    semicolons: bool


_SECTIONS = ("abbreviations", "maybe", "numbered", "starts", "months", "headlines", "titled")
_OF_ONE_LANGUAGE = ("headlines", "titled")
_FOLDER = importlib.resources.files("tf_transformer.text").joinpath("sentence_rules")


@functools.cache
def languages() -> tuple[str, ...]:
    """Codes of the languages that have word lists."""
    return tuple(sorted(path.name.removesuffix(".txt") for path in _FOLDER.iterdir() if path.name.endswith(".txt")))


@functools.cache
def words_of(language: str | None) -> Words:
    """The words of a language by its code ("de", "pt-BR"); those of all languages if the code is None or unknown."""
    code = (language or "").replace("_", "-").split("-")[0].lower()
    chosen = [code] if code in languages() else languages()
    each = [_parse(_FOLDER.joinpath(f"{name}.txt").read_text(encoding="utf-8")) for name in chosen]
    lists = {name: _union([words[name] for words in each]) for name in _SECTIONS}
    options = frozenset().union(*(words["options"] for words in each))
    # In most languages a semicolon is no question mark, and words of a headline have capital letters.
    lists |= {name: frozenset() for name in _OF_ONE_LANGUAGE if len(each) > 1}
    return Words(**lists, ordinals="ordinals" in options, semicolons=len(each) == 1 and "semicolons" in options)


def _union(lists: list[frozenset[str]]) -> frozenset[str]:
    """All words, but of two letters in lower case, which may be words of other languages ("es"), those in two lists."""
    counts = collections.Counter(word for words in lists for word in words)
    enough = min(2, len(lists))
    return frozenset(w for w, n in counts.items() if n >= enough or len(w) > 2 or "." in w or not w.islower())


def _parse(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {name: set() for name in ("options", *_SECTIONS)}
    current = "options"
    for line in text.splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif not line.startswith("#"):
            found[current].update(line.split())
    found["abbreviations"] -= found["maybe"]
    return {name: frozenset(words) for name, words in found.items()}


def _any_of(words: Iterable[str]) -> str:
    """A pattern of the words; a space may follow a period inside one ("z. B.")."""
    texts = sorted(words, key=lambda word: (-len(word), word))
    inner = r"\.[ \x{A0}\x{202F}]?"
    return "(?:" + "|".join(inner.join(map(re.escape, word.split("."))) for word in texts) + ")"


def rules_of(language: str | None) -> list[Rule]:
    """The substitutions for a language, in their order: text to separators and sentences with EDGE between them."""
    words = words_of(language)
    return [*_separators(words), *_candidates(words), *_exceptions(words), *_headlines(words), *_edges()]


def _separators(words: Words) -> list[Rule]:
    """Line breaks, tabs and the ends of the text, with the space and the bullets around them."""
    line_start = rf"(^|{LINE_BREAK})({SPACE}*[0-9]{{1,2}}\.)({SPACE}+{_any_of(words.months)})"
    space = rf"{SPACE}*(?:{_BULLET}|{_NUMBER})?"
    lines = rf"(?:{SPACE}*(?:{LINE_BREAK}|\t){SPACE}*{_BULLET}?)+{_NUMBER}?"
    return [
        Rule(line_start, rf"\1\2{KEEP}\3"),
        Rule(rf"({lines})", rf"{EDGE}\1{EDGE}"),
        Rule(rf"\A(?:{EDGE}({lines}){EDGE}|({space}))", rf"\1\2{EDGE}"),
        Rule(rf"(?:{EDGE}({lines}){EDGE}|({SPACE}*))\z", rf"{EDGE}\1\2"),
        Rule(KEEP, ""),
    ]


def _candidates(words: Words) -> list[Rule]:
    semicolon = ";" if words.semicolons else ""
    stops = rf"(?:[{semicolon}{_STOPS}{_WIDE_STOPS}]+(?:{_CLOSERS}|\[[0-9]{{1,3}}\])*)+(?:[ \x{{A0}}\x{{202F}}]»)?"
    wide = rf"(?:[{_WIDE_STOPS}]+{_CLOSERS}*)+"
    return [
        Rule(rf"({stops})({SPACE})", rf"\1{BREAK}\2"),
        Rule(rf"({wide})([^{MARKS}{_WIDE_STOPS}\s\p{{Z}}])", rf"\1{BREAK}\2"),
        # The period of an item's number, which is part of a separator.
        Rule(rf"{BREAK}({SPACE}+{EDGE})", r"\1"),
    ]


def _exceptions(words: Words) -> list[Rule]:
    follows = rf"({SPACE}+{_OPENERS}*"
    return [
        # What follows is no beginning of a sentence.
        Rule(rf"{BREAK}{follows}(?:\p{{Ll}}|[-–—]+{SPACE}*\p{{Ll}}|[,;:.!?…)\]}}%/&=|]))", r"\1"),
        Rule(rf"(\.\.|…){BREAK}({SPACE}+\p{{N}})", r"\1\2"),
        Rule(rf"{BREAK}([\x{{A0}}\x{{202F}}])", r"\1"),
        Rule(rf"([」』]){BREAK}([とってだ])", r"\1\2"),
        # An item's number stays with the item.
        Rule(rf"([{BREAK}{EDGE}]{SPACE}*\(?(?:[0-9]{{1,3}}|\p{{L}})\.){BREAK}", r"\1"),
        # Abbreviations.
        *_inner_periods(words),
        Rule(rf"{_START}({_any_of(words.numbered)}\.){BREAK}({SPACE}+(?:\p{{N}}|[IVXLC]+\b))", r"\1\2\3"),
        Rule(rf"{_START}({_any_of(words.maybe)}\.){BREAK}", rf"\1\2{MAYBE}"),
        Rule(rf"{_START}({_any_of(words.abbreviations)}\.){BREAK}", r"\1\2"),
        Rule(rf"{_START}(\p{{Lu}}\.){BREAK}", rf"\1\2{MAYBE}"),
        *(_ordinals(words) if words.ordinals else []),
        # Only a word that often begins a sentence makes an end of a possible end.
        Rule(rf"{MAYBE}{follows}{_any_of(words.starts)}(?:[^\p{{L}}]|$))", rf"{BREAK}\1"),
        Rule(MAYBE, ""),
    ]


def _inner_periods(words: Words) -> list[Rule]:
    """Marks inside an abbreviation of several words ("i. d. R."): a pass finds every other one, so there are two."""
    dotted = [word.split(".") for word in words.abbreviations | words.maybe if "." in word]
    first = _any_of({part for parts in dotted for part in parts[:-1] if part})
    second = _any_of({part for parts in dotted for part in parts[1:] if part})
    return [Rule(rf"{_START}({first}\.){BREAK}({SPACE}{second}\.)", r"\1\2\3")] * 2


def _ordinals(words: Words) -> list[Rule]:
    number = r"((?:^|[^\p{L}\p{N}.,])(?:[0-9]{1,3}|[IVX]+)\.)"
    return [
        Rule(rf"([0-9]\.){BREAK}({SPACE}+{_any_of(words.months)})", r"\1\2"),
        Rule(rf"{number}{BREAK}", rf"\1{MAYBE}"),
    ]


def _headlines(words: Words) -> list[Rule]:
    """Ends of headlines, which have no punctuation: before a word that has a capital letter at such a place only."""
    if not words.headlines:
        return []
    inner = _any_of(word.lower() for word in words.headlines)
    return [
        Rule(rf"(\p{{L}}[\p{{L}}\p{{N}}][\x22”“»]?)({SPACE}+{_any_of(words.headlines)}{SPACE})", rf"\1{MAYBE}\2"),
        # No headline ends in one of these words, nor in a noun that a title follows.
        Rule(rf"{_START}({inner}){MAYBE}", r"\1\2"),
        Rule(rf"((?i:{_any_of(words.titled)})){MAYBE}", r"\1"),
        Rule(MAYBE, BREAK),
    ]


def _edges() -> list[Rule]:
    return [Rule(rf"{BREAK}({SPACE}*)", rf"{EDGE}\1{EDGE}")]
