"""Clauses: one set of parts, put in order as a main clause, a question or a subordinate clause."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tf_transformer.data.corpora.phrasebook.english import join, present, was
from tf_transformer.data.corpora.phrasebook.german import conjugate, contract
from tf_transformer.data.corpora.phrasebook.noun_phrase import Nominal
from tf_transformer.data.corpora.phrasebook.verbs import Verb

MODALS = {
    "can": "können",
    "must": "müssen",
    "want to": "wollen",
    "should": "sollen",
    "may": "dürfen",
    "would like to": "mögen",
    "will": "werden",
}
# "must not" is missing: its German is another verb, "darf nicht".
NEGATED_MODALS = {
    "can": "cannot",
    "want to": "do not want to",
    "should": "should not",
    "may": "may not",
    "would like to": "would not like to",
    "will": "will not",
}

BE = Verb("be", "was", "", "", "sein", "gewesen", "sein", "bist", "ist", "", "nominative", "")

Phrase = tuple[str, str]  # the same words in English and in German
NONE: Phrase = ("", "")


@dataclass(frozen=True)
class Clause:
    """A subject, a verb and what goes with them, in both languages.

    Attributes:
        tense: "present", "past" (German uses the perfect), or a key of MODALS.
        object: what the verb asks for, with its preposition where it has one.
        recipient: the person in the dative of "give the child an apple".
        complement: what is said with `be`: an adjective, a comparison.
        time, frequency, manner, place: adverbials. English puts frequency before the verb and the others last, place
            before time; German has time before place.
    """

    subject: Nominal
    verb: Verb
    tense: str = "present"
    object: Nominal | None = None
    recipient: Nominal | None = None
    complement: Phrase = NONE
    negated: bool = False
    time: Phrase = NONE
    frequency: Phrase = NONE
    manner: Phrase = NONE
    place: Phrase = NONE

    # English

    def english(self) -> str:
        """The statement: "The baker does not buy the car today", without a full stop."""
        return join(self.subject.english(), *self._english_verb(), self._english_rest())

    def english_question(self) -> str:
        """The question with do or a modal in front: "does the baker buy the car today"."""
        auxiliary, verb = self._english_auxiliary()
        return join(auxiliary, self.subject.english(), self.frequency[0], verb, self._english_rest())

    def english_predicate(self) -> str:
        """The statement without its subject."""
        return join(*self._english_verb(), self._english_rest())

    def english_infinitive(self) -> str:
        """The words after "to": "open the door"."""
        return join(self.verb.english, self._english_rest())

    def _english_rest(self) -> str:
        object_ = self.object.english("object") if self.object else ""
        if self.object and self.object.is_pronoun:
            objects = (object_, self.verb.particle)
        else:
            objects = (self.verb.particle, object_)
        recipient = self.recipient.english("object") if self.recipient else ""
        return join(recipient, *objects, self.complement[0], self.manner[0], self.place[0], self.time[0])

    def _english_verb(self) -> tuple[str, ...]:
        """The finite verb with frequency and negation, in order."""
        person = self.subject.person
        if self.verb is BE and self.tense in ("present", "past"):
            form = present("be", person) if self.tense == "present" else was(person)
            return form, "not" if self.negated else "", self.frequency[0]
        if self.negated:
            auxiliary, verb = self._english_auxiliary(negated=True)
            return auxiliary, self.frequency[0], verb
        if self.tense == "present":
            return self.frequency[0], present(self.verb.english, person)
        if self.tense == "past":
            return self.frequency[0], self.verb.past
        modal = present(self.tense, person) if self.tense == "want to" else self.tense
        return modal, self.frequency[0], self.verb.english

    def _english_auxiliary(self, negated: bool = False) -> tuple[str, str]:
        """The auxiliary that moves in questions and carries the negation, and the words that stay with the verb."""
        person, base = self.subject.person, self.verb.english
        if self.verb is BE and self.tense in ("present", "past"):
            return (present("be", person) if self.tense == "present" else was(person)), ""
        if self.tense == "past":
            return ("did not" if negated else "did"), base
        if self.tense in ("present", "want to"):
            do = present("do", person)
            return (f"{do} not" if negated else do), join("want to" if self.tense == "want to" else "", base)
        if negated:
            return NEGATED_MODALS[self.tense], base
        first, _, rest = self.tense.partition(" ")  # "would like to": only "would" moves
        return first, join(rest, base)

    # German

    def german(self, front: str = "") -> str:
        """The main clause with the verb second; `front` is what stands first in place of the subject."""
        finite, bracket = self._german_verb()
        if front:
            return join(front, finite, self.subject.german(), *self._middle(), bracket)
        return join(self.subject.german(), finite, *self._middle(), bracket)

    def german_question(self) -> str:
        """The question with the verb first."""
        finite, bracket = self._german_verb()
        return join(finite, self.subject.german(), *self._middle(), bracket)

    def german_final(self) -> str:
        """The subordinate clause with the verb last: "der Bäcker heute das Auto kauft"."""
        return join(self.subject.german(), self.german_final_predicate())

    def german_final_predicate(self) -> str:
        """The subordinate clause without its subject, as relative clauses need it."""
        finite, bracket = self._german_verb()
        if bracket and bracket == self.verb.prefix:
            return join(*self._middle(), bracket + finite)
        return join(*self._middle(), bracket, finite)

    def german_zu_infinitive(self) -> str:
        """The clause as it follows "versucht,": "die Tür aufzumachen"."""
        return join(*self._middle(), self.verb.zu_infinitive)

    def german_after_verb(self) -> str:
        """What follows the finite verb where the subject is not spoken: "die Tür auf"."""
        return join(*self._middle(), self._german_verb()[1])

    def _german_verb(self) -> tuple[str, str]:
        """The finite verb, and what closes the bracket: prefix, participle or infinitive."""
        person = self.subject.person
        if self.tense == "present":
            return conjugate(self.verb, person), self.verb.prefix
        if self.tense == "past" and self.verb is BE:
            return conjugate("war", person), ""
        if self.tense == "past":
            return conjugate(self.verb.auxiliary, person), self.verb.participle
        return conjugate(MODALS[self.tense], person), self.verb.infinitive

    def _middle(self) -> tuple[str, ...]:
        """What stands between the parts of the verb.

        Pronouns come first, then time, then nouns, then places. But before "nicht" the nouns come first, because
        "nicht" follows what is known ("Er ruft den Arzt heute nicht an") and precedes places, prepositions and
        predicates; and what is new follows the place ("Er isst im Garten einen Apfel").
        """
        pronouns, nouns, last, nicht = self._german_objects()
        when = (self.time[1], self.frequency[1])
        where = (self.manner[1], self.place[1])
        if nicht:
            order = (*nouns, *when, nicht, *where)
        elif self.object and self.object.is_new:
            order = (*when, *where, *nouns)
        else:
            order = (*when, *nouns, *where)
        return (*pronouns, *order, *last, self.complement[1])

    def _german_objects(self) -> tuple[list[str], list[str], list[str], str]:
        """Objects that are pronouns, objects that are nouns, objects with a preposition, and "nicht" where it is."""
        pronouns, nouns, last = [], [], []
        nicht = "nicht" if self.negated else ""
        if self.recipient:
            (pronouns if self.recipient.is_pronoun else nouns).append(self.recipient.german("dative"))
        if self.object:
            object_ = self.object
            if self.negated and object_.is_indefinite and not self.verb.preposition:
                object_, nicht = object_.negated(), ""
            text = object_.german(self.verb.case)
            if self.verb.preposition:
                last.append(contract(f"{self.verb.preposition} {text}"))
            else:
                (pronouns if object_.is_pronoun else nouns).append(text)
        return pronouns, nouns, last, nicht

    def but(self, **parts) -> Clause:
        """The same clause with other parts."""
        return replace(self, **parts)
