"""Sentences of two clauses: dass, weil, ob, wenn, relative clauses, and infinitives with zu."""

from __future__ import annotations

from tf_transformer.data.corpora.phrasebook import adverbials
from tf_transformer.data.corpora.phrasebook.adjectives import fitting
from tf_transformer.data.corpora.phrasebook.clause import BE, Clause, Phrase
from tf_transformer.data.corpora.phrasebook.dice import Dice
from tf_transformer.data.corpora.phrasebook.english import present
from tf_transformer.data.corpora.phrasebook.german import conjugate, definite_article
from tf_transformer.data.corpora.phrasebook.marks import mark, new_marks, phrase, plain, possible
from tf_transformer.data.corpora.phrasebook.noun_phrase import PRONOUNS, NounPhrase
from tf_transformer.data.corpora.phrasebook.nouns import NOUNS
from tf_transformer.data.corpora.phrasebook.parts import SUBJECT, clause, noun_phrase, person
from tf_transformer.data.corpora.phrasebook.statements import sentence
from tf_transformer.data.corpora.phrasebook.verbs import (
    BELIEVE,
    HOPE,
    LIVE,
    PREPOSITIONAL,
    SAY,
    TRANSITIVE,
    TRY,
    WONDER,
)

_TIRED_AND_SO_ON = tuple(a for a in fitting(NOUNS[0]) if a.english in ("tired", "hungry", "sick", "happy"))
_CONDITIONS = (
    ("if it rains", "wenn es regnet"),
    ("if it snows", "wenn es schneit"),
    ("if the weather is good", "wenn das Wetter gut ist", "0-0 1-1 2-2 3-4 4-3"),
    ("if the weather is bad", "wenn das Wetter schlecht ist", "0-0 1-1 2-2 3-4 4-3"),
    ("if the sun shines", "wenn die Sonne scheint"),
)
_MOTIONS = tuple(verb for verb in PREPOSITIONAL if verb.english in ("go to", "go into", "travel to"))
_PURPOSES = tuple(verb for verb in TRANSITIVE if verb.english in ("buy", "visit", "pick", "look for", "invite", "find"))


def _subordinate(dice: Dice) -> Clause:
    """A clause of any kind, short enough to be one of two."""
    kind = dice.below(10)
    if kind < 2:
        adjective = dice.pick(_TIRED_AND_SO_ON)
        complement = phrase(adjective.english, adjective.german)
        return Clause(person(dice, 50, adjective_percent=0), BE, complement=complement, negated=dice.chance(20))
    if kind < 4:
        return clause(dice, "past").but(time=adverbials.past_time(dice))
    if kind < 6:
        return clause(dice, dice.pick(("can", "must", "want to", "will", "should")))
    negated = dice.chance(20)
    parts = clause(dice, negated=negated)
    return parts.but(time=adverbials.present_time(dice, negated)) if dice.chance(30) else parts


def reported(dice: Dice) -> Phrase:
    """ "I know that …", "She asks whether …": the clause that follows has its verb at the end."""
    speaker = dice.pick(PRONOUNS) if dice.chance(70) else person(dice)
    who, wer = speaker.english(), speaker.german()
    who, wer = phrase(who, wer) if speaker.is_pronoun else (who, wer)
    inner = _subordinate(dice)
    kind = dice.below(10)
    if kind < 2:
        main = phrase(f"{present('know', speaker.person)} that", f"{conjugate('wissen', speaker.person)}, dass")
    elif kind < 4:
        do = present("do", speaker.person)
        knows = conjugate("wissen", speaker.person)
        main = phrase(f"{do} not know whether", f"{knows} nicht, ob", "0-0? 1-1 2-0 3-2")
    elif kind < 6:
        main = phrase(f"{present('ask', speaker.person)} whether", f"{conjugate(WONDER, speaker.person)}, ob")
    else:
        verb = dice.pick((SAY, HOPE, BELIEVE))
        main = phrase(f"{present(verb.english, speaker.person)} that", f"{conjugate(verb, speaker.person)}, dass")
    return sentence(f"{who} {main[0]} {inner.english()}", f"{wer} {main[1]} {inner.german_final()}")


def reason(dice: Dice) -> Phrase:
    """ "… because …", "… although …"."""
    main = clause(dice)
    english, german = phrase(*dice.pick((("because", "weil"), ("because", "weil"), ("although", "obwohl"))))
    inner = _subordinate(dice)
    return sentence(
        f"{main.english()} {english} {inner.english()}", f"{main.german()}, {german} {inner.german_final()}"
    )


def condition(dice: Dice) -> Phrase:
    """ "If it rains, …": the subordinate clause takes the first place and the verb follows it."""
    main = clause(dice, dice.pick(("present", "present", "can", "must", "want to", "will", "should")))
    english, german = phrase(*dice.pick(_CONDITIONS))
    if dice.chance(40):
        adjective = dice.pick(_TIRED_AND_SO_ON)
        inner = Clause(main.subject, BE, complement=phrase(adjective.english, adjective.german))
        if not main.subject.is_pronoun:
            inner = inner.but(subject=person(dice, 20, adjective_percent=0))
        if_, wenn = phrase("if", "wenn")
        english, german = f"{if_} {inner.english()}", f"{wenn} {inner.german_final()}"
    if dice.chance(50):
        comma, komma = phrase(",", ",")
        return sentence(f"{english}{comma} {main.english()}", f"{german}{komma} {main.german_question()}")
    return sentence(f"{main.english()} {english}", f"{main.german()}, {german}")


def relative(dice: Dice) -> Phrase:
    """ "The baker who lives in the city is tired"."""
    head = noun_phrase(dice, "person", SUBJECT, adjective_percent=0)
    inner = Clause(head, LIVE, place=adverbials.home(dice)) if dice.chance(25) else clause(dice, subject=head)
    if dice.chance(40):
        adjective = dice.pick(_TIRED_AND_SO_ON)
        complement = phrase(adjective.english, adjective.german)
        main = Clause(head, BE, complement=complement, negated=dice.chance(20))
    else:
        main = clause(dice, subject=head)
    who, pronoun = phrase("who", definite_article(head.column, "nominative"))
    german = main.but(subject=_Spoken(f"{head.german()}, {pronoun} {inner.german_final_predicate()},", head)).german()
    return sentence(f"{head.english()} {who} {inner.english_predicate()} {main.english_predicate()}", german)


class _Spoken:
    """A subject whose German has been put together already."""

    is_pronoun = False

    def __init__(self, text: str, head: NounPhrase):
        self._text = text
        self.person = head.person

    def german(self, case: str = "nominative") -> str:
        return self._text


def attempt(dice: Dice) -> Phrase:
    """ "tries to open the door": versucht, die Tür aufzumachen."""
    subject = person(dice, pronoun_percent=40)
    parts = clause(dice, subject=subject)
    infinitive = parts.german_zu_infinitive()
    # Only an infinitive with company is set off.
    comma = "" if plain(infinitive) == parts.verb.zu_infinitive else ","
    tries, versucht = phrase(present(TRY.english, subject.person), conjugate(TRY, subject.person))
    return sentence(
        f"{parts.english_subject()} {tries} {mark('to', parts.marks.to)} {parts.english_infinitive()}",
        f"{parts.german_subject()} {versucht}{comma} {infinitive}",
    )


def purpose(dice: Dice) -> Phrase:
    """ "goes into the city in order to buy a book": geht in die Stadt, um ein Buch zu kaufen."""
    main = clause(dice, verb=dice.pick(_MOTIONS))
    parts = clause(dice, subject=main.subject, verb=dice.pick(_PURPOSES))
    um = new_marks(1)[0]
    in_order_to = f"{mark('in order', um)} {mark('to', parts.marks.to, possible(um))}"
    return sentence(
        f"{main.english()} {in_order_to} {parts.english_infinitive()}",
        f"{main.german()}, {mark('um', um)} {parts.german_zu_infinitive()}",
    )
