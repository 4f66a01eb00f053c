"""Clauses: one set of parts, put in order as a main clause, a question or a subordinate clause."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tf_transformer.data.corpora.phrasebook.english import join, present, was
from tf_transformer.data.corpora.phrasebook.german import conjugate, contract
from tf_transformer.data.corpora.phrasebook.marks import mark, new_marks, possible
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
class ClauseMarks:
    """The marks of a clause's words: see `marks`. `auxiliary` is of auxiliaries and modals, `to` of to and zu."""

    subject: str
    object: str
    recipient: str
    verb: str
    auxiliary: str
    preposition: str
    negation: str
    to: str

    @classmethod
    def new(cls) -> ClauseMarks:
        return cls(*new_marks(8))


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
    marks: ClauseMarks = field(default_factory=ClauseMarks.new, compare=False, repr=False)

    # English

    def english(self) -> str:
        """The statement: "The baker does not buy the car today", without a full stop."""
        return join(self.english_subject(), *self._english_verb(), self._english_rest())

    def english_question(self) -> str:
        """The question with do or a modal in front: "does the baker buy the car today"."""
        auxiliary, verb = self._english_auxiliary()
        return join(auxiliary, self.english_subject(), self.frequency[0], verb, self._english_rest())

    def english_subject(self) -> str:
        return _said(self.subject, self.subject.english(), self.marks.subject)

    def english_predicate(self) -> str:
        """The statement without its subject."""
        return join(*self._english_verb(), self._english_rest())

    def english_infinitive(self) -> str:
        """The words after "to": "open the door"."""
        return join(self._english_form(self.verb.english), self._english_rest())

    def _english_rest(self) -> str:
        object_ = _said(self.object, self.object.english("object"), self.marks.object) if self.object else ""
        particle = mark(self.verb.particle, self.marks.verb)
        objects = (object_, particle) if self.object and self.object.is_pronoun else (particle, object_)
        recipient = ""
        if self.recipient:
            recipient = _said(self.recipient, self.recipient.english("object"), self.marks.recipient)
        return join(recipient, *objects, self.complement[0], self.manner[0], self.place[0], self.time[0])

    def _english_verb(self) -> tuple[str, ...]:
        """The finite verb with frequency and negation, in order."""
        person = self.subject.person
        if self.verb is BE and self.tense in ("present", "past"):
            form = present("be", person) if self.tense == "present" else was(person)
            negation = mark("not" if self.negated else "", self.marks.negation)
            return self._english_form(form), negation, self.frequency[0]
        if self.negated:
            auxiliary, verb = self._english_auxiliary(negated=True)
            return auxiliary, self.frequency[0], verb
        if self.tense == "present":
            return self.frequency[0], self._english_form(present(self.verb.english, person))
        if self.tense == "past":
            return self.frequency[0], self._english_form(self.verb.past)
        modal = present(self.tense, person) if self.tense == "want to" else self.tense
        return self._modal(modal), self.frequency[0], self._english_form(self.verb.english)

    def _english_form(self, form: str) -> str:
        """A form of the verb; its preposition translates the German one, if there is one."""
        verb, _, rest = form.partition(" ")
        own = self.marks.preposition if self.verb.preposition else self.marks.verb
        return join(mark(verb, self.marks.verb), mark(rest, own))

    def _modal(self, words: str) -> str:
        """A modal with its "to" and its negation, or a form of do."""
        marks = self.marks
        own = {"not": marks.negation, "to": possible(marks.auxiliary) + possible(marks.verb)}
        own["cannot"] = marks.auxiliary + marks.negation
        if self.tense in ("present", "past", "want to"):
            do = {"present": "", "past": marks.auxiliary, "want to": possible(marks.auxiliary)}[self.tense]
            do += "" if self.tense == "want to" else possible(marks.verb)
            own |= dict.fromkeys(("do", "does", "did"), do)
        return join(*(mark(word, own.get(word, marks.auxiliary)) for word in words.split()))

    def _english_auxiliary(self, negated: bool = False) -> tuple[str, str]:
        """The auxiliary that moves in questions and carries the negation, and the words that stay with the verb."""
        person, base = self.subject.person, self.verb.english
        if self.verb is BE and self.tense in ("present", "past"):
            return self._english_form(present("be", person) if self.tense == "present" else was(person)), ""
        base = self._english_form(base)
        if self.tense == "past":
            return self._modal("did not" if negated else "did"), base
        if self.tense in ("present", "want to"):
            do = present("do", person)
            want = self._modal("want to") if self.tense == "want to" else ""
            return self._modal(f"{do} not" if negated else do), join(want, base)
        if negated:
            return self._modal(NEGATED_MODALS[self.tense]), base
        first, _, rest = self.tense.partition(" ")  # "would like to": only "would" moves
        return self._modal(first), join(self._modal(rest), base)

    # German

    def german(self, front: str = "") -> str:
        """The main clause with the verb second; `front` is what stands first in place of the subject."""
        finite, bracket = self._german_verb()
        if front:
            return join(front, finite, self.german_subject(), *self._middle(), bracket)
        return join(self.german_subject(), finite, *self._middle(), bracket)

    def german_subject(self) -> str:
        return _said(self.subject, self.subject.german(), self.marks.subject)

    def german_question(self) -> str:
        """The question with the verb first."""
        finite, bracket = self._german_verb()
        return join(finite, self.german_subject(), *self._middle(), bracket)

    def german_final(self) -> str:
        """The subordinate clause with the verb last: "der Bäcker heute das Auto kauft"."""
        return join(self.german_subject(), self.german_final_predicate())

    def german_final_predicate(self) -> str:
        """The subordinate clause without its subject, as relative clauses need it."""
        finite, bracket = self._german_verb()
        if bracket and self.tense == "present":
            return join(*self._middle(), bracket + finite)
        return join(*self._middle(), bracket, finite)

    def german_zu_infinitive(self) -> str:
        """The clause as it follows "versucht,": "die Tür aufzumachen"."""
        zu, _, verb = self.verb.zu_infinitive.rpartition(" ")
        inside = "" if zu else possible(self.marks.to)
        return join(*self._middle(), mark(zu, self.marks.to), mark(verb, self.marks.verb + inside))

    def german_after_verb(self) -> str:
        """What follows the finite verb where the subject is not spoken: "die Tür auf"."""
        return join(*self._middle(), self._german_verb()[1])

    def _german_verb(self) -> tuple[str, str]:
        """The finite verb, and what closes the bracket: prefix, participle or infinitive."""
        person, verb, auxiliary = self.subject.person, self.marks.verb, self.marks.auxiliary
        if self.tense == "present":
            return mark(conjugate(self.verb, person), verb), mark(self.verb.prefix, verb)
        if self.tense == "past" and self.verb is BE:
            return mark(conjugate("war", person), verb), ""
        if self.tense == "past":
            finite = mark(conjugate(self.verb.auxiliary, person), auxiliary + possible(verb))
            return finite, mark(self.verb.participle, verb)
        return mark(conjugate(MODALS[self.tense], person), auxiliary), mark(self.verb.infinitive, verb)

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
        nicht = mark("nicht" if self.negated else "", self.marks.negation)
        if self.recipient:
            text = _said(self.recipient, self.recipient.german("dative"), self.marks.recipient)
            (pronouns if self.recipient.is_pronoun else nouns).append(text)
        if self.object:
            object_ = self.object
            if self.negated and object_.is_indefinite and not self.verb.preposition:
                object_, nicht = object_.negated(self.marks.negation), ""
            text = _said(object_, object_.german(self.verb.case), self.marks.object)
            if self.verb.preposition:
                last.append(contract(f"{mark(self.verb.preposition, self.marks.preposition)} {text}"))
            else:
                (pronouns if object_.is_pronoun else nouns).append(text)
        return pronouns, nouns, last, nicht

    def but(self, **parts) -> Clause:
        """The same clause with other parts."""
        return replace(self, **parts)


def _said(nominal: Nominal, text: str, own: str) -> str:
    """The text with a mark if it is a pronoun; noun phrases have marks of their own."""
    return mark(text, own) if nominal.is_pronoun else text
