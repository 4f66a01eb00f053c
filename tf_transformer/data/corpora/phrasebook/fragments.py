"""Phrases that are no sentences: noun phrases, prepositional phrases, numbers; and times and dates."""

from __future__ import annotations

from dataclasses import replace

from tf_transformer.data.corpora.phrasebook import adverbials
from tf_transformer.data.corpora.phrasebook.adjectives import fitting
from tf_transformer.data.corpora.phrasebook.clause import Phrase
from tf_transformer.data.corpora.phrasebook.dice import Dice, weighted
from tf_transformer.data.corpora.phrasebook.marks import phrase
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
        thing = mass_phrase(dice, dice.pick(("drink", "staple")), adjective_percent=90)
    else:
        thing = noun_phrase(dice, NOUNS, _DETERMINERS, adjective_percent=85)
    if thing.adjectives and not thing.owner and dice.chance(15):
        thing = _with_another_adjective(dice, thing)
    return thing.english(), thing.german()


def _with_another_adjective(dice: Dice, thing: NounPhrase) -> NounPhrase:
    """A size or an age in front of what the phrase says already: "the big red house"."""
    sizes = [a for a in fitting(thing.noun) if a.english in ("big", "small", "old", "young", "beautiful")]
    other = [a for a in thing.adjectives if a not in sizes and a.english not in ("good", "bad")]
    if not sizes or not other:
        return thing
    return replace(thing, adjectives=(dice.pick(sizes), *other))


def prepositions(dice: Dice) -> Phrase:
    """A preposition with its case: "with the old baker", mit dem alten Bäcker."""
    english, german, case, tags = dice.pick(_PREPOSITIONS)
    return adverbials.prepositional(english, german, noun_phrase(dice, tags, _OBJECTS, adjective_percent=60), case)


def numbers(dice: Dice) -> Phrase:
    number = dice.between(0, 999)
    return phrase(english_number(number), german_number(number))


def times(dice: Dice) -> Phrase:
    """ "It is half past seven.", Es ist halb acht."""
    english, german = clock_time(dice.between(1, 12), dice.below(12))
    kind = dice.below(3)
    if kind == 0:
        at, um = phrase("at", "um")
        return f"{at} {english}", f"{um} {german}"
    if kind == 1:
        is_it, ist_es = phrase("is it", "ist es")
        return sentence(f"{is_it} {english}", f"{ist_es} {german}", "?")
    it_is, es_ist = phrase("it is", "es ist")
    return sentence(f"{it_is} {english}", f"{es_ist} {german}")


def dates(dice: Dice) -> Phrase:
    """ "Today is Monday, the third of May.", "on the third of May", and birthdays."""
    name, time, dative = adverbials.date(dice)
    day, tag = phrase(*adverbials.weekday(dice))
    english, german = phrase(*dice.pick(_DAYS))
    comma, komma = phrase(",", ",")
    kind = dice.below(5)
    if kind == 0:
        return sentence(f"{english} {name[0]}", f"{german} {name[1]}")
    if kind == 1:
        return sentence(f"{english} {day}{comma} {name[0]}", f"{german} {tag}{komma} {name[1]}")
    if kind == 2:
        owner, wessen = dice.pick((("my", "mein"), ("your", "dein"), ("his", "sein"), ("her", "ihr")))
        birthday, geburtstag = phrase(f"{owner} birthday is", f"{wessen} Geburtstag ist")
        return sentence(f"{birthday} {time[0]}", f"{geburtstag} {time[1]}")
    if kind == 3:
        return time
    # The apposition is in the dative, like the day it explains.
    on, am = phrase("on", "am")
    return f"{on} {day}{comma} {dative[0]}", f"{am} {tag}{komma} {dative[1]}"
