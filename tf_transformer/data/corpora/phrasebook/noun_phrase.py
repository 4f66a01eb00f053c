"""Noun phrases and pronouns that know how to be said in English and in each German case."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from tf_transformer.data.corpora.phrasebook.adjectives import Adjective
from tf_transformer.data.corpora.phrasebook.english import article, join
from tf_transformer.data.corpora.phrasebook.german import (
    adjective_ending,
    definite_article,
    der_word,
    ein_word,
    noun_form,
)
from tf_transformer.data.corpora.phrasebook.marks import mark, new_marks, possible
from tf_transformer.data.corpora.phrasebook.nouns import Noun
from tf_transformer.data.corpora.phrasebook.numbers import english_number, german_number

# English determiners and their German stems, by how they and the adjective after them are inflected.
EIN_WORDS = {"a": "ein", "no": "kein", "my": "mein", "your": "dein", "his": "sein", "her": "ihr", "our": "unser"}
DER_WORDS = {"this": "dies", "these": "dies", "every": "jed", "which": "welch", "all": "all"}
STRONG_WORDS = {"many": "viel", "some": "einig"}


class Nominal(Protocol):
    """What can be a subject or an object: a noun phrase or a pronoun."""

    person: str
    is_pronoun: bool

    def english(self, case: str = "nominative") -> str: ...

    def german(self, case: str = "nominative") -> str: ...


@dataclass(frozen=True)
class NounPhrase:
    """A determiner, adjectives and a noun, perhaps with whom it belongs to.

    Attributes:
        determiner: "the", an English key of the tables above, or "" for none.
        number: a numeral from 2 on in place of the determiner, or 0.
        owner: "the baker" in "the baker's car", das Auto des Bäckers; the determiner is then not spoken in English.
        marks: of noun, determiner, and the adjectives.
    """

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    number: int = 0
    owner: NounPhrase | None = None
    marks: tuple[str, ...] = field(default_factory=lambda: new_marks(4), compare=False, repr=False)

    is_pronoun = False

    @property
    def person(self) -> str:
        return "sie" if self.plural else "er"

    @property
    def column(self) -> str:
        """The column of German's inflection tables: the gender, or "p" for any plural."""
        return "p" if self.plural else self.noun.gender

    @property
    def is_indefinite(self) -> bool:
        """Whether German negates it with kein: ein Auto, Autos, Kaffee."""
        return self.determiner in ("a", "") and not self.number and not self.owner

    @property
    def is_new(self) -> bool:
        """Whether it is told of for the first time, and German puts it late: ein Auto, sieben Autos, kein Auto."""
        return self.is_indefinite or bool(self.number) or self.determiner in ("no", *STRONG_WORDS)

    def negated(self, negation: str) -> NounPhrase:
        """The same phrase with kein; `negation` is the mark of "not"."""
        noun, determiner, *adjectives = self.marks
        return replace(self, determiner="no", marks=(noun, determiner + negation, *adjectives))

    def english(self, case: str = "nominative") -> str:
        words = [mark(each.english, own) for each, own in zip(self.adjectives, self.marks[2:])]
        words.append(mark(self.noun.plural if self.plural else self.noun.english, self.marks[0]))
        if self.owner:
            determiner = self.owner.english() + "'s"
        elif self.number:
            determiner = mark(english_number(self.number), self.marks[1])
        elif self.determiner == "a":
            determiner = mark(article(words[0]), self.marks[1])
        else:
            determiner = mark(self.determiner, self.marks[1])
        return join(determiner, *words)

    def german(self, case: str = "nominative") -> str:
        word, declension = self._german_determiner(case)
        ending = adjective_ending(declension, self.column, case)
        # The article of "das Auto des Bäckers" is not spoken in English.
        determined = possible(self.marks[0]) + possible(self.owner.marks[0]) if self.owner else self.marks[1]
        adjectives = [mark(each.stem + ending, own) for each, own in zip(self.adjectives, self.marks[2:])]
        noun = mark(noun_form(self.noun, case, self.plural), self.marks[0])
        owner = self.owner.german("genitive") if self.owner else ""
        return join(mark(word, determined), *adjectives, noun, owner)

    def _german_determiner(self, case: str) -> tuple[str, str]:
        if self.number:
            return german_number(self.number), "strong"
        if self.determiner == "the":
            return definite_article(self.column, case), "weak"
        if self.determiner in DER_WORDS:
            return der_word(DER_WORDS[self.determiner], self.column, case), "weak"
        if self.determiner in EIN_WORDS:
            return ein_word(EIN_WORDS[self.determiner], self.column, case), "mixed"
        if self.determiner in STRONG_WORDS:
            return der_word(STRONG_WORDS[self.determiner], self.column, case), "strong"
        return "", "strong"


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun; "you" is always the du of friends."""

    person: str
    subject: str
    object: str
    nominative: str
    accusative: str
    dative: str

    is_pronoun = True
    is_indefinite = False
    is_new = False

    def english(self, case: str = "nominative") -> str:
        return self.subject if case == "nominative" else self.object

    def german(self, case: str = "nominative") -> str:
        return getattr(self, case)


PRONOUNS = (
    Pronoun("ich", "I", "me", "ich", "mich", "mir"),
    Pronoun("du", "you", "you", "du", "dich", "dir"),
    Pronoun("er", "he", "him", "er", "ihn", "ihm"),
    Pronoun("er", "she", "her", "sie", "sie", "ihr"),
    Pronoun("wir", "we", "us", "wir", "uns", "uns"),
    Pronoun("sie", "they", "them", "sie", "sie", "ihnen"),
)
