"""Gold alignments of the phrasebook: of the same sentences, with words that translate each other."""

import re

import pytest

from tf_transformer.data.corpora import open_corpus, phrasebook_alignments
from tf_transformer.data.corpora.phrasebook.marks import MARKS, mark, marking, marks_of, phrase, plain, possible
from tf_transformer.text import split_words


@pytest.fixture(scope="module")
def gold():
    return phrasebook_alignments("test")


def links_of(pair, chosen):
    words = [[word.text for word in side] for side in split_words([pair.source, pair.target])]
    return {f"{words[0][i]}-{words[1][j]}" for i, j in chosen}


def test_the_sentences_are_those_of_the_corpus(gold):
    split = open_corpus("phrasebook").splits["test"]
    assert [(pair.source, pair.target) for pair in gold] == [(s.decode(), t.decode()) for s, t in split]
    assert not any(re.search(MARKS, pair.source + pair.target) for pair in gold)


def test_all_words_but_german_commas_are_linked(gold):
    sides = [split_words(pair[side] for pair in gold) for side in (0, 1)]
    for pair, *words in zip(gold, *sides):
        assert pair.sure <= pair.possible
        for side in (0, 1):
            linked = {link[side] for link in pair.possible}
            unlinked = [word.text for i, word in enumerate(words[side]) if i not in linked]
            assert set(unlinked) <= ({","} if side else set())


@pytest.mark.parametrize(
    ("english", "sure", "not_sure"),
    [
        (
            "She does not turn off a computer in the morning.",
            "turn-schaltet off-aus not-keinen a-keinen the-am",
            "does-schaltet",
        ),
        ("seven old bakers", "seven-sieben old-alte bakers-Bäcker", ""),
        ("You do not thank my guests in winter.", "thank-dankst not-nicht in-im winter-Winter", "do-dankst"),
        (
            "The women call his student's queen although the aunt waited for her last summer.",
            "call-rufen call-an student's-Studenten for-auf her-sie waited-gewartet",
            "waited-hat queen-die",
        ),
    ],
)  # fmt: skip
def test_sentences_with_known_links(gold, english, sure, not_sure):
    pair = next(pair for pair in gold if pair.source == english)
    assert set(sure.split()) <= links_of(pair, pair.sure)
    assert set(not_sure.split()) <= links_of(pair, pair.possible - pair.sure)


def test_the_other_direction_has_the_same_links(gold):
    other = phrasebook_alignments("test", "de", "en")
    assert [(pair.target, pair.source) for pair in other] == [(pair.source, pair.target) for pair in gold]
    for one, two in zip(gold, other):
        assert {(j, i) for i, j in two.sure} == one.sure and {(j, i) for i, j in two.possible} == one.possible


def test_marks_are_only_made_on_request():
    assert mark("a b", "x") == "a b" and phrase("a", "b") == ("a", "b")
    with marking():
        english, german = phrase("go home,", "geh heim", "0-0 1-1?")
        assert plain(english) == "go home," and plain(german) == "geh heim"
        (first, one, sure), (second, two, unsure) = marks_of(english)
        assert (first, second, sure, unsure) == (1, 6, True, False)
        assert [(place, name) for place, name, _ in marks_of(german)] == [(2, one), (7, two)]
        with pytest.raises(ValueError, match="links for 3 English and 2 German"):
            phrase("a b c", "d e")
        assert mark("a", possible("\U000f0001")) == "a\U000f0001\U0010fffd"
