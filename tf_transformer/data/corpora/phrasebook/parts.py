"""Parts of sentences drawn at random: subjects, objects, places, times, and clauses made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from tf_transformer.data.corpora.phrasebook import adverbials
from tf_transformer.data.corpora.phrasebook.adjectives import Adjective, fitting
from tf_transformer.data.corpora.phrasebook.clause import NONE, Clause
from tf_transformer.data.corpora.phrasebook.dice import Dice, weighted
from tf_transformer.data.corpora.phrasebook.marks import phrase
from tf_transformer.data.corpora.phrasebook.noun_phrase import PRONOUNS, Nominal, NounPhrase
from tf_transformer.data.corpora.phrasebook.nouns import MASS_NOUNS, Noun, with_tags
from tf_transformer.data.corpora.phrasebook.verbs import (
    DATIVE,
    DITRANSITIVE,
    DRINK,
    INTRANSITIVE,
    PREPOSITIONAL,
    TRANSITIVE,
    Verb,
)

POSSESSIVES = ("my", "your", "his", "her", "our")
# Determiners by how a noun phrase is used; "#" stands for a numeral, "'s" for an owner.
SUBJECT = weighted({"the": 24, "my": 3, "your": 3, "his": 3, "her": 3, "our": 3, "a": 3, "this": 4, "#": 2})
OBJECT = weighted(
    {"the": 18, "a": 13, "my": 2, "your": 2, "his": 2, "her": 2, "our": 2, "this": 4, "#": 4, "": 4, "'s": 2, "many": 1}
)
# What "nicht" and "kein" can be used with.
NEGATED_OBJECT = weighted({"the": 10, "a": 9, "my": 1, "your": 1, "his": 1, "her": 1, "our": 1, "this": 2, "": 4})
PERSON_OBJECT = weighted(
    {"the": 12, "my": 2, "your": 2, "his": 2, "her": 2, "our": 2, "this": 3, "a": 2, "#": 1, "'s": 1}
)
RECIPIENT = ("the",) * 4 + POSSESSIVES
_ALWAYS_PLURAL = ("#", "", "all", "many", "some")
_ALWAYS_SINGULAR = ("a", "every")

_VERBS = weighted({TRANSITIVE: 55, DATIVE: 9, PREPOSITIONAL: 16, DITRANSITIVE: 11, INTRANSITIVE: 9})
# Verbs of which animals can be the subject (not "eat": of animals German says "fressen"), and verbs whose sentences
# can say where.
_ANIMAL_VERBS = ("sleep", "come", "come back", "wake", "see", "hear", "follow")
_PLACED_VERBS = frozenset(
    {"see", "look for", "find", "eat", "read", "write", "wash", "repair", "hear", "cook", "wait for", "talk to"}
    | {"play with", "sleep", "work", "laugh", "sing", "dance", "cry"}
)


@cache
def _nouns(tags: str) -> tuple[Noun, ...]:
    return with_tags(tags)


@cache
def _adjectives(noun: Noun) -> tuple[Adjective, ...]:
    return fitting(noun)


def noun_phrase(
    dice: Dice,
    nouns: str | Sequence[Noun],
    determiners: Sequence[str] = OBJECT,
    adjective_percent: int = 35,
    plural_percent: int = 25,
) -> NounPhrase:
    """A phrase around one of the nouns, which are given one by one or by their tags."""
    noun = dice.pick(_nouns(nouns) if isinstance(nouns, str) else nouns)
    determiner = dice.pick(determiners)
    plural = determiner in _ALWAYS_PLURAL or (determiner not in _ALWAYS_SINGULAR and dice.chance(plural_percent))
    adjectives = (dice.pick(_adjectives(noun)),) if dice.chance(adjective_percent) else ()
    if determiner == "#":
        return NounPhrase(noun, "", True, adjectives, number=numeral(dice))
    if determiner == "'s":
        return NounPhrase(noun, "the", plural, adjectives, owner=_owner(dice))
    if determiner in POSSESSIVES and "unowned" in noun.tags:
        determiner = "the"
    if determiner == "this" and plural:
        determiner = "these"
    return NounPhrase(noun, determiner, plural, adjectives)


def numeral(dice: Dice) -> int:
    """A number from 2 to 99, every other time a small one."""
    return dice.between(2, 12) if dice.chance(50) else dice.between(2, 99)


def mass_phrase(dice: Dice, tag: str, adjective_percent: int = 40) -> NounPhrase:
    """A noun that is not counted, mostly without an article: kalte Milch."""
    noun = dice.pick([noun for noun in MASS_NOUNS if tag in noun.tags])
    adjectives = (dice.pick(_adjectives(noun)),) if dice.chance(adjective_percent) else ()
    return NounPhrase(noun, "the" if dice.chance(25) else "", False, adjectives)


def _owner(dice: Dice) -> NounPhrase:
    return noun_phrase(dice, "person", ("the",) * 8 + POSSESSIVES, adjective_percent=0, plural_percent=0)


def person(dice: Dice, pronoun_percent: int = 0, adjective_percent: int = 20) -> Nominal:
    """Somebody, as a subject."""
    if dice.chance(pronoun_percent):
        return dice.pick(PRONOUNS)
    return noun_phrase(dice, "person", SUBJECT, adjective_percent)


def subject_of(dice: Dice, verb: Verb, pronoun_percent: int = 35) -> Nominal:
    if verb.english in _ANIMAL_VERBS and dice.chance(20):
        return noun_phrase(dice, "animal", SUBJECT, adjective_percent=25)
    return person(dice, pronoun_percent)


def _object_of(dice: Dice, verb: Verb, subject: Nominal, negated: bool) -> Nominal:
    if verb is DRINK:
        return mass_phrase(dice, "drink")
    if verb.english in ("eat", "buy") and dice.chance(20):
        return mass_phrase(dice, "staple")
    if "person" in verb.tags and dice.chance(20):
        return _other_pronoun(dice, subject)
    if verb.preposition and not {"person", "pet"} & set(verb.tags.split()):
        determiners = ("the",) * 5 + POSSESSIVES if "inside" in verb.tags else ("the",)
        return noun_phrase(dice, verb.tags, determiners, adjective_percent=20, plural_percent=0)
    if "person" in verb.tags:
        phrase = _other_noun(dice, verb.tags, subject, PERSON_OBJECT)
        return replace(phrase, number=0, determiner="the") if negated and phrase.number else phrase
    return _other_noun(dice, verb.tags, subject, NEGATED_OBJECT if negated else OBJECT)


def _other_pronoun(dice: Dice, subject: Nominal) -> Nominal:
    """A pronoun that is not the subject itself: neither "I see me" nor "I see us"."""
    first = ("ich", "wir")
    while True:
        pronoun = dice.pick(PRONOUNS)
        if pronoun == subject or (subject.is_pronoun and subject.person == pronoun.person == "du"):
            continue
        if subject.is_pronoun and subject.person in first and pronoun.person in first:
            continue
        return pronoun


def _other_noun(dice: Dice, tags: str, subject: Nominal, determiners) -> NounPhrase:
    """A noun phrase around another noun than the subject's."""
    while True:
        phrase = noun_phrase(dice, tags, determiners)
        if subject.is_pronoun or phrase.noun is not subject.noun:
            return phrase


def clause(
    dice: Dice,
    tense: str = "present",
    *,
    negated: bool = False,
    subject: Nominal | None = None,
    verb: Verb | None = None,
) -> Clause:
    """A clause with everything its verb asks for, perhaps a place, and no time."""
    verb = verb or (DRINK if dice.chance(3) else dice.pick(dice.pick(_VERBS)))
    subject = subject or subject_of(dice, verb)
    object_ = _object_of(dice, verb, subject, negated) if verb.tags else None
    recipient = None
    if verb.recipient:
        if dice.chance(30):
            recipient = _other_pronoun(dice, subject)
        else:
            recipient = _other_noun(dice, "person", subject, RECIPIENT)
    place = NONE
    if verb.english in _PLACED_VERBS and dice.chance(20 if object_ else 40):
        place = adverbials.place(dice)
    manner = NONE
    if verb.english == "travel to" and dice.chance(50):
        manner = phrase("by bus", "mit dem Bus", "0-0 0-1? 1-1? 1-2")
    return Clause(subject, verb, tense, object_, recipient, negated=negated, place=place, manner=manner)
