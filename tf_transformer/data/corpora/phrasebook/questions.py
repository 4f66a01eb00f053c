"""Questions and requests: the verb first, question words, and what one asks a friend to do."""

from __future__ import annotations

from tf_transformer.data.corpora.phrasebook import adverbials
from tf_transformer.data.corpora.phrasebook.clause import Clause, Phrase
from tf_transformer.data.corpora.phrasebook.dice import Dice
from tf_transformer.data.corpora.phrasebook.english import join
from tf_transformer.data.corpora.phrasebook.german import imperative
from tf_transformer.data.corpora.phrasebook.marks import mark, phrase, possible
from tf_transformer.data.corpora.phrasebook.noun_phrase import PRONOUNS, NounPhrase
from tf_transformer.data.corpora.phrasebook.nouns import with_tags
from tf_transformer.data.corpora.phrasebook.parts import NEGATED_OBJECT, clause, noun_phrase, person, subject_of
from tf_transformer.data.corpora.phrasebook.statements import sentence
from tf_transformer.data.corpora.phrasebook.verbs import (
    ARRIVE,
    COST,
    DATIVE,
    INTRANSITIVE,
    LEAVE,
    LIVE,
    TRANSITIVE,
    Verb,
)

_TENSES = ("present", "present", "past", "can", "must", "want to", "will", "should")
_YOU = PRONOUNS[1]
_WITH_THINGS = tuple(verb for verb in TRANSITIVE if "person" not in verb.tags and not verb.particle)
_WITH_PERSONS = tuple(v for v in TRANSITIVE + DATIVE if "person" in v.tags and v.english != "look for")
_REQUESTED = tuple(
    v for v in TRANSITIVE + DATIVE if v.english not in ("see", "need", "hear", "find", "forget", "follow")
)


def yes_or_no(dice: Dice) -> Phrase:
    parts = clause(dice, dice.pick(_TENSES))
    if dice.chance(30):
        parts = parts.but(time=_time(dice, parts.tense))
    return sentence(parts.english_question(), parts.german_question(), "?")


def _time(dice: Dice, tense: str) -> Phrase:
    if tense == "present":
        return adverbials.present_time(dice)
    return adverbials.past_time(dice) if tense == "past" else adverbials.future_time(dice)


def when_or_why(dice: Dice) -> Phrase:
    english, german = phrase(*dice.pick((("when", "wann"), ("why", "warum"), ("why", "warum"))))
    parts = clause(dice, dice.pick(_TENSES))
    return sentence(f"{english} {parts.english_question()}", parts.german(front=german), "?")


def where(dice: Dice) -> Phrase:
    verb = LIVE if dice.chance(30) else dice.pick(INTRANSITIVE[:6])
    tense = "present" if verb is LIVE else dice.pick(_TENSES)
    parts = Clause(subject_of(dice, verb), verb, tense)
    english, german = phrase("where", "wo")
    return sentence(f"{english} {parts.english_question()}", parts.german(front=german), "?")


def what(dice: Dice) -> Phrase:
    verb = dice.pick(_WITH_THINGS)
    parts = Clause(subject_of(dice, verb), verb, dice.pick(_TENSES))
    english, german = phrase("what", "was")
    return sentence(f"{english} {parts.english_question()}", parts.german(front=german), "?")


def whom(dice: Dice) -> Phrase:
    verb = dice.pick(_WITH_PERSONS)
    parts = Clause(person(dice, 35), verb, dice.pick(_TENSES))
    english, german = phrase("whom", "wem" if verb.case == "dative" else "wen")
    return sentence(f"{english} {parts.english_question()}", parts.german(front=german), "?")


class _Who:
    """The subject of "who buys the car?"."""

    person = "er"
    is_pronoun = True
    is_indefinite = False

    def english(self, case: str = "nominative") -> str:
        return "who"

    def german(self, case: str = "nominative") -> str:
        return "wer"


def who(dice: Dice) -> Phrase:
    tense = dice.pick(("present", "present", "can", "must", "want to", "will"))
    parts = clause(dice, tense, subject=_Who())
    return sentence(parts.english(), parts.german(), "?")


def which_or_how_many(dice: Dice) -> Phrase:
    """ "Which book does he read?", "How many apples do you buy?"."""
    verb: Verb = dice.pick(_WITH_THINGS)
    plural = dice.chance(50)
    if plural:
        thing = NounPhrase(dice.pick(with_tags(verb.tags)), "", True)
        english, german = phrase("how many", "wie viele")
        english, german = f"{english} {thing.english()}", f"{german} {thing.german(verb.case)}"
    else:
        thing = noun_phrase(dice, verb.tags, ("which",))
        english, german = thing.english(), thing.german(verb.case)
    parts = Clause(subject_of(dice, verb), verb, dice.pick(_TENSES))
    return sentence(f"{english} {parts.english_question()}", parts.german(front=german), "?")


def at_the_counter(dice: Dice) -> Phrase:
    """What a traveler asks: prices, times of trains, where things are."""
    kind = dice.below(4)
    if kind == 0:
        parts = Clause(noun_phrase(dice, "priced", ("the", "the", "this")), COST)
        english, german = phrase("how much", "wie viel")
        return sentence(f"{english} {parts.english_question()}", parts.german(front=german), "?")
    if kind == 1:
        parts = Clause(noun_phrase(dice, "ride", ("the",)), dice.pick((LEAVE, ARRIVE)))
        english, german = phrase("when", "wann")
        return sentence(f"{english} {parts.english_question()}", parts.german(front=german), "?")
    if kind == 2:
        thing = noun_phrase(dice, "front goal small pet kin", ("the", "the", "my", "your", "his", "her", "our"))
        where_is, wo_ist = phrase(*(("where are", "wo sind") if thing.plural else ("where is", "wo ist")))
        return sentence(f"{where_is} {thing.english()}", f"{wo_ist} {thing.german()}", "?")
    parts = Clause(noun_phrase(dice, "ride", ("the", "the", "our", "this")), dice.pick((LEAVE, ARRIVE)))
    parts = parts.but(time=adverbials.time_of_day(dice))
    return sentence(parts.english(), parts.german())


def request(dice: Dice) -> Phrase:
    """What one asks a friend to do: "Please open the door.", "Do not forget the key!"."""
    verb = dice.pick(_REQUESTED)
    negated = dice.chance(25)
    object_ = noun_phrase(dice, verb.tags, NEGATED_OBJECT)
    parts = Clause(_YOU, verb, object=object_, negated=negated)
    own = parts.marks
    do_not = join(mark("do", possible(own.verb)), mark("not", own.negation)) if negated else ""
    english = join(do_not, parts.english_infinitive())
    german = join(mark(imperative(verb), own.verb), parts.german_after_verb())
    if not negated and dice.chance(50):
        please, bitte = phrase("please", "bitte")
        return sentence(f"{please} {english}", f"{bitte} {german}")
    return sentence(english, german, "!")
