"""Phrases that are no sentences: noun phrases, prepositional phrases, numbers; and times and dates."""

from __future__ import annotations

from dataclasses import replace

from tf_transformer.data.corpora.phrasebook import adverbials
from tf_transformer.data.corpora.phrasebook.adjectives import fitting
from tf_transformer.data.corpora.phrasebook.clause import Phrase
from tf_transformer.data.corpora.phrasebook.dice import Dice, weighted
from tf_transformer.data.corpora.phrasebook.german import contract
from tf_transformer.data.corpora.phrasebook.noun_phrase import NounPhrase
from tf_transformer.data.corpora.phrasebook.nouns import NOUNS
from tf_transformer.data.corpora.phrasebook.numbers import clock_time, english_number, german_number
from tf_transformer.data.corpora.phrasebook.parts import mass_phrase, noun_phrase
from tf_transformer.data.corpora.phrasebook.statements import sentence

_DETERMINERS = weighted(
    {"the": 8, "a": 6, "#": 12, "my": 2, "your": 2, "his": 2, "her": 2, "our": 2, "this": 3}
    | {"no": 3, "every": 2, "all": 2, "many": 3, "some": 3, "": 3, "'s": 4}
)
_PREPOSITIONS = (
    ("with", "mit", "dative", "person animal thing"),
    ("without", "ohne", "accusative", "person animal thing"),
    ("for", "für", "accusative", "person animal thing inside"),
    ("from", "von", "dative", "person"),
    ("against", "gegen", "accusative", "person animal"),
    ("in", "in", "dative", "inside"),
    ("behind", "hinter", "dative", "front shade"),
    ("in front of", "vor", "dative", "front"),
    ("next to", "neben", "dative", "front thing"),
    ("under", "unter", "dative", "shade"),
)
_OBJECTS = weighted({"the": 6, "a": 4, "#": 4, "my": 1, "your": 1, "his": 1, "her": 1, "our": 1, "this": 2, "": 1})
_DAYS = (("today is", "heute ist"), ("tomorrow is", "morgen ist"), ("yesterday was", "gestern war"))


def things(dice: Dice) -> Phrase:
    """A noun phrase in the nominative: "seven old bakers", sieben alte Bäcker."""
    if dice.chance(4):
        phrase = mass_phrase(dice, dice.pick(("drink", "staple")), adjective_percent=90)
    else:
        phrase = noun_phrase(dice, NOUNS, _DETERMINERS, adjective_percent=85)
    if phrase.adjectives and not phrase.owner and dice.chance(15):
        phrase = _with_another_adjective(dice, phrase)
    return phrase.english(), phrase.german()


def _with_another_adjective(dice: Dice, phrase: NounPhrase) -> NounPhrase:
    """A size or an age in front of what the phrase says already: "the big red house"."""
    sizes = [a for a in fitting(phrase.noun) if a.english in ("big", "small", "old", "young", "beautiful")]
    other = [a for a in phrase.adjectives if a not in sizes and a.english not in ("good", "bad")]
    if not sizes or not other:
        return phrase
    return replace(phrase, adjectives=(dice.pick(sizes), *other))


def prepositions(dice: Dice) -> Phrase:
    """A preposition with its case: "with the old baker", mit dem alten Bäcker."""
    english, german, case, tags = dice.pick(_PREPOSITIONS)
    phrase = noun_phrase(dice, tags, _OBJECTS, adjective_percent=60)
    return f"{english} {phrase.english()}", contract(f"{german} {phrase.german(case)}")


def numbers(dice: Dice) -> Phrase:
    number = dice.between(0, 999)
    return english_number(number), german_number(number)


def times(dice: Dice) -> Phrase:
    """ "It is half past seven.", Es ist halb acht."""
    english, german = clock_time(dice.between(1, 12), dice.below(12))
    kind = dice.below(3)
    if kind == 0:
        return f"at {english}", f"um {german}"
    if kind == 1:
        return sentence(f"is it {english}", f"ist es {german}", "?")
    return sentence(f"it is {english}", f"es ist {german}")


def dates(dice: Dice) -> Phrase:
    """ "Today is Monday, the third of May.", "on the third of May", and birthdays."""
    name, time = adverbials.date(dice)
    day, tag = adverbials.weekday(dice)
    english, german = dice.pick(_DAYS)
    kind = dice.below(5)
    if kind == 0:
        return sentence(f"{english} {name[0]}", f"{german} {name[1]}")
    if kind == 1:
        return sentence(f"{english} {day}, {name[0]}", f"{german} {tag}, {name[1]}")
    if kind == 2:
        owner, wessen = dice.pick((("my", "mein"), ("your", "dein"), ("his", "sein"), ("her", "ihr")))
        return sentence(f"{owner} birthday is {time[0]}", f"{wessen} Geburtstag ist {time[1]}")
    if kind == 3:
        return time
    # The apposition is in the dative, like the day it explains.
    return f"on {day}, {name[0]}", f"am {tag}, {time[1].replace('am ', 'dem ', 1)}"
