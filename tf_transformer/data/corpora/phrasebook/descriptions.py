"""What things are like: adjectives, comparisons, ages, prices, where something is."""

from __future__ import annotations

from tf_transformer.data.corpora.phrasebook import adverbials
from tf_transformer.data.corpora.phrasebook.adjectives import fitting
from tf_transformer.data.corpora.phrasebook.clause import BE, Clause, Phrase
from tf_transformer.data.corpora.phrasebook.dice import Dice, weighted
from tf_transformer.data.corpora.phrasebook.english import present
from tf_transformer.data.corpora.phrasebook.german import conjugate
from tf_transformer.data.corpora.phrasebook.marks import phrase
from tf_transformer.data.corpora.phrasebook.noun_phrase import PRONOUNS
from tf_transformer.data.corpora.phrasebook.nouns import NOUNS
from tf_transformer.data.corpora.phrasebook.numbers import english_number, german_number
from tf_transformer.data.corpora.phrasebook.parts import SUBJECT, noun_phrase, person
from tf_transformer.data.corpora.phrasebook.statements import sentence, timed
from tf_transformer.data.corpora.phrasebook.verbs import COST, LIE, PUT

_DEFINITE = weighted({"the": 10, "my": 1, "your": 1, "his": 1, "her": 1, "our": 1, "this": 2})
_PERSONAL = ("tired", "hungry", "sick", "happy", "rich", "poor")
_DEGREES = (("", ""), ("", ""), ("very ", "sehr "), ("too ", "zu "))
_DESCRIBED = tuple(noun for noun in NOUNS if fitting(noun))


def quality(dice: Dice) -> Phrase:
    """ "The house is very old", with pronouns for what only people can be."""
    subject = dice.pick(PRONOUNS) if dice.chance(25) else noun_phrase(dice, _DESCRIBED, _DEFINITE, 0)
    adjectives = fitting(NOUNS[0]) if subject.is_pronoun else fitting(subject.noun)
    if subject.is_pronoun:
        adjectives = [adjective for adjective in adjectives if adjective.english in _PERSONAL]
    adjective = dice.pick(adjectives)
    degree = dice.pick(_DEGREES)
    complement = phrase(degree[0] + adjective.english, degree[1] + adjective.german)
    parts = Clause(subject, BE, complement=complement, negated=dice.chance(25))
    kind = dice.below(10)
    if kind < 7:
        return sentence(parts.english(), parts.german())
    if kind < 8 and not parts.negated:
        return timed(dice, parts.but(tense="past"), phrase("yesterday", "gestern"))
    return timed(dice, parts, phrase(*dice.pick((("today", "heute"), ("now", "jetzt")))))


def comparison(dice: Dice) -> Phrase:
    """ "older than", "as old as": two things of a kind."""
    first = noun_phrase(dice, _DESCRIBED, _DEFINITE, 0)
    shared = [adjective for adjective in fitting(first.noun) if adjective.comparative]
    others = [noun for noun in _DESCRIBED if noun.kind == first.noun.kind and noun is not first.noun] or _DESCRIBED
    second = noun_phrase(dice, others, _DEFINITE, 0, plural_percent=0)
    adjective = dice.pick([adjective for adjective in shared if adjective in fitting(second.noun)] or shared)
    if dice.chance(65):
        older, than = phrase(adjective.comparative, adjective.german_comparative), phrase("than", "als")
        english, german = f"{older[0]} {than[0]}", f"{older[1]} {than[1]}"
    else:
        english, german = phrase(f"as {adjective.english} as", f"so {adjective.german} wie")
    complement = f"{english} {second.english()}", f"{german} {second.german()}"
    parts = Clause(first, BE, complement=complement, negated=dice.chance(15))
    return sentence(parts.english(), parts.german())


def age(dice: Dice) -> Phrase:
    number = dice.between(2, 99)
    complement = phrase(f"{english_number(number)} years old", f"{german_number(number)} Jahre alt")
    subject = dice.pick(PRONOUNS) if dice.chance(20) else noun_phrase(dice, "person", _DEFINITE, 20)
    parts = Clause(subject, BE, complement=complement)
    return sentence(parts.english(), parts.german())


def price(dice: Dice) -> Phrase:
    number = dice.between(2, 99) if dice.chance(70) else dice.between(100, 999)
    subject = noun_phrase(dice, "priced", _DEFINITE)
    count, euros = phrase(english_number(number), german_number(number)), phrase("euros", "Euro")
    parts = Clause(subject, COST, complement=(f"{count[0]} {euros[0]}", f"{count[1]} {euros[1]}"))
    return sentence(parts.english(), parts.german())


def existence(dice: Dice) -> Phrase:
    """ "There is a dog under the table", where German begins with the place."""
    english, german = _spot(dice)
    tags = "animal small" if english.startswith("under") else "animal person small"
    thing = noun_phrase(dice, tags, ("a", "a", "#", "no", "many"))
    there_is, ist = phrase(f"there {present('be', thing.person)}", conjugate("sein", thing.person), "0-0? 1-0")
    return sentence(f"{there_is} {thing.english()} {english}", f"{german} {ist} {thing.german()}")


def _spot(dice: Dice) -> Phrase:
    if dice.chance(60):
        english, german = adverbials.place(dice)
        if " " in english:
            return english, german
    thing = noun_phrase(dice, "shade", ("the",), adjective_percent=15, plural_percent=0)
    return adverbials.prepositional("under", "unter", thing, "dative")


def position(dice: Dice) -> Phrase:
    """ "lies on the table" with the dative, "puts it on the table" with the accusative."""
    surface = noun_phrase(dice, "surface", ("the", "the", "my", "your"), 15, plural_percent=0)
    if dice.chance(50):
        place = adverbials.prepositional("on", "auf", surface, "dative")
        parts = Clause(noun_phrase(dice, "laid", SUBJECT), LIE, place=place)
    else:
        thing = noun_phrase(dice, PUT.tags)
        goal = adverbials.prepositional("on", "auf", surface, "accusative")
        parts = Clause(person(dice, 35), PUT, object=thing, complement=goal)
    return sentence(parts.english(), parts.german())
