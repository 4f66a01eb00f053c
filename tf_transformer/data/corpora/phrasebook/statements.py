"""Main clauses: present, past and modals, with negation, adverbials and the verb second."""

from __future__ import annotations

from tf_transformer.data.corpora.phrasebook import adverbials
from tf_transformer.data.corpora.phrasebook.clause import Clause, Phrase
from tf_transformer.data.corpora.phrasebook.dice import Dice, weighted
from tf_transformer.data.corpora.phrasebook.marks import mark, new_marks, phrase, possible
from tf_transformer.data.corpora.phrasebook.parts import clause, mass_phrase, noun_phrase, person
from tf_transformer.data.corpora.phrasebook.verbs import DRINK, HAVE, INTRANSITIVE, LIVE, TRANSITIVE

_MODAL_TENSES = weighted({"can": 3, "must": 3, "want to": 3, "should": 2, "may": 1, "would like to": 2, "will": 5})
_NEGATED_TENSES = weighted({"can": 3, "want to": 2, "should": 2, "may": 1, "would like to": 1, "will": 3})


def sentence(english: str, german: str, stop: str = ".") -> Phrase:
    """Both sides with a capital letter in front and a period or other stop at the end."""
    stops = phrase(stop, stop)
    return english[0].upper() + english[1:] + stops[0], german[0].upper() + german[1:] + stops[1]


def timed(dice: Dice, parts: Clause, time: Phrase, front_percent: int = 40) -> Phrase:
    """A statement with a time, at its place in the middle or in front, where German inverts subject and verb."""
    if dice.chance(front_percent):
        return sentence(f"{time[0]} {parts.english()}", parts.german(front=time[1]))
    parts = parts.but(time=time)
    return sentence(parts.english(), parts.german())


def present(dice: Dice) -> Phrase:
    parts = clause(dice)
    kind = dice.below(10)
    if kind < 4:
        return sentence(parts.english(), parts.german())
    if kind < 6:
        parts = parts.but(frequency=adverbials.frequency(dice))
        return sentence(parts.english(), parts.german())
    return timed(dice, parts, adverbials.present_time(dice))


def negation(dice: Dice) -> Phrase:
    tense = "present" if dice.chance(70) else "past"
    parts = clause(dice, tense, negated=True)
    if dice.chance(50):
        return sentence(parts.english(), parts.german())
    time = adverbials.past_time(dice) if tense == "past" else adverbials.present_time(dice, negated=True)
    return timed(dice, parts, time)


def past(dice: Dice) -> Phrase:
    """Simple past in English, perfect in German, always with a time: "read" alone would not tell."""
    return timed(dice, clause(dice, "past"), adverbials.past_time(dice))


def modal(dice: Dice) -> Phrase:
    negated = dice.chance(25)
    parts = clause(dice, dice.pick(_NEGATED_TENSES if negated else _MODAL_TENSES), negated=negated)
    if dice.chance(60):
        return timed(dice, parts, adverbials.future_time(dice))
    return sentence(parts.english(), parts.german())


def liking(dice: Dice) -> Phrase:
    """ "likes to swim", which German says with an adverb: "schwimmt gern"."""
    subject = person(dice, pronoun_percent=35)
    if dice.chance(30):
        verb, object_ = dice.pick(INTRANSITIVE[:5]), None
    elif dice.chance(20):
        verb, object_ = DRINK, mass_phrase(dice, "drink")
    else:
        verb = dice.pick(_LIKED)
        object_ = noun_phrase(dice, verb.tags, ("",))
    gern = new_marks(1)[0]
    parts = Clause(subject, verb, object=object_, frequency=("", mark("gern", gern)))
    like = mark("likes" if subject.person == "er" else "like", gern)
    to = mark("to", possible(gern), possible(parts.marks.verb))
    return sentence(f"{parts.english_subject()} {like} {to} {parts.english_infinitive()}", parts.german())


_LIKED = tuple(verb for verb in TRANSITIVE if verb.english in ("eat", "read", "write", "paint", "bake", "cook"))


def possession(dice: Dice) -> Phrase:
    negated = dice.chance(30)
    parts = clause(dice, negated=negated, verb=HAVE)
    return sentence(parts.english(), parts.german())


def dwelling(dice: Dice) -> Phrase:
    parts = Clause(person(dice, pronoun_percent=30), LIVE, negated=dice.chance(25), place=adverbials.home(dice))
    return sentence(parts.english(), parts.german())
