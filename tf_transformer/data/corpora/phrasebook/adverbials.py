"""Where, when and how often, in both languages."""

from __future__ import annotations

from tf_transformer.data.corpora.phrasebook.clause import Phrase
from tf_transformer.data.corpora.phrasebook.dice import Dice
from tf_transformer.data.corpora.phrasebook.german import contract
from tf_transformer.data.corpora.phrasebook.marks import phrase
from tf_transformer.data.corpora.phrasebook.noun_phrase import NounPhrase
from tf_transformer.data.corpora.phrasebook.nouns import with_tags
from tf_transformer.data.corpora.phrasebook.numbers import (
    MONTHS,
    WEEKDAYS,
    clock_time,
    english_number,
    english_ordinal,
    german_number,
    german_ordinal,
)

_FREQUENCIES = (
    ("often", "oft"),
    ("always", "immer"),
    ("sometimes", "manchmal"),
    ("never", "nie"),
    ("rarely", "selten"),
)

# The times of each tense are different ones: "read" is present and past, and only they tell which.
_PRESENT = (
    ("today", "heute"),
    ("now", "jetzt"),
    ("in the evening", "am Abend", "0-0 1-0 2-1"),
    ("in the morning", "am Morgen", "0-0 1-0 2-1"),
    ("in summer", "im Sommer"),
    ("in winter", "im Winter"),
)
_REPEATED = (("every day", "jeden Tag"), ("every evening", "jeden Abend"), ("every year", "jedes Jahr"))
_PAST = (
    ("yesterday", "gestern"),
    ("yesterday evening", "gestern Abend"),
    ("last week", "letzte Woche"),
    ("last year", "letztes Jahr"),
    ("last summer", "letzten Sommer"),
    ("last winter", "letzten Winter"),
)
_FUTURE = (
    ("tomorrow", "morgen"),
    ("tomorrow evening", "morgen Abend"),
    ("next week", "nächste Woche"),
    ("next year", "nächstes Jahr"),
    ("next summer", "nächsten Sommer"),
)

_PREPOSITIONS = (
    ("in", "in", "inside"),
    ("in", "in", "inside"),
    ("in", "in", "inside"),
    ("behind", "hinter", "front shade"),
    ("in front of", "vor", "front"),
)


def frequency(dice: Dice) -> Phrase:
    return phrase(*dice.pick(_FREQUENCIES))


def place(dice: Dice) -> Phrase:
    """Where something happens; German has the dative."""
    if dice.chance(15):
        return phrase(*dice.pick((("here", "hier"), ("at home", "zu Hause"))))
    english, german, tags = dice.pick(_PREPOSITIONS)
    inside = NounPhrase(dice.pick(with_tags(tags)), dice.pick(("the", "the", "the", "my", "your", "our")))
    return prepositional(english, german, inside, "dative")


def prepositional(english: str, german: str, inside: NounPhrase, case: str) -> Phrase:
    """A noun phrase with a preposition in front of it."""
    english, german = phrase(english, german)
    return f"{english} {inside.english()}", contract(f"{german} {inside.german(case)}")


def home(dice: Dice) -> Phrase:
    """Where one lives."""
    inside = NounPhrase(dice.pick(with_tags("home")), dice.pick(("the", "the", "a", "this", "my", "your")))
    return prepositional("in", "in", inside, "dative")


def weekday(dice: Dice) -> Phrase:
    return dice.pick(WEEKDAYS)


def date(dice: Dice) -> tuple[Phrase, Phrase, Phrase]:
    """A day of the year: as a name ("der dritte Mai"), as a time ("am dritten Mai"), and as a name in the dative."""
    month, monat, days = dice.pick(MONTHS)
    day = dice.between(1, days)
    english = f"the {english_ordinal(day)} of {month}"
    stem, links = german_ordinal(day), "0-0 1-1 2-1? 2-2? 3-2"
    time = phrase(f"on {english}", f"am {stem}en {monat}", "0-0 1-0 2-1 3-1? 3-2? 4-2")
    return phrase(english, f"der {stem}e {monat}", links), time, phrase(english, f"dem {stem}en {monat}", links)


def time_of_day(dice: Dice) -> Phrase:
    """A time of the clock with um: "um halb acht"."""
    (at, um), (english, german) = phrase("at", "um"), clock_time(dice.between(1, 12), dice.below(12))
    return f"{at} {english}", f"{um} {german}"


def present_time(dice: Dice, negated: bool = False) -> Phrase:
    """A time for the present tense; negated sentences have none that repeats ("nicht jeden Tag" means otherwise)."""
    if dice.chance(12):
        return time_of_day(dice)
    if not negated and dice.chance(25):
        if dice.chance(50):
            english, german = weekday(dice)
            return phrase(f"every {english}", f"jeden {german}")
        return phrase(*dice.pick(_REPEATED))
    return phrase(*dice.pick(_PRESENT))


def past_time(dice: Dice) -> Phrase:
    kind = dice.below(10)
    if kind < 2:
        english, german = weekday(dice)
        return phrase(f"last {english}", f"letzten {german}")
    if kind < 4:
        number = dice.between(2, 12)
        unit, einheit = dice.pick((("days", "Tagen"), ("weeks", "Wochen"), ("years", "Jahren")))
        return phrase(f"{english_number(number)} {unit} ago", f"vor {german_number(number)} {einheit}", "0-1 1-2 2-0")
    return phrase(*dice.pick(_PAST))


def future_time(dice: Dice) -> Phrase:
    kind = dice.below(10)
    if kind < 2:
        english, german = weekday(dice)
        return phrase(f"on {english}", f"am {german}")
    if kind < 3:
        return date(dice)[1]
    if kind < 4:
        month, monat, _ = dice.pick(MONTHS)
        return phrase(f"in {month}", f"im {monat}")
    return phrase(*dice.pick(_FUTURE))
