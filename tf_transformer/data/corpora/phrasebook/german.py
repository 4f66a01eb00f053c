"""German inflection: articles, adjective endings, noun cases, present tense, contractions."""

from __future__ import annotations

import re

from tf_transformer.data.corpora.phrasebook.marks import MARKS
from tf_transformer.data.corpora.phrasebook.nouns import Noun
from tf_transformer.data.corpora.phrasebook.verbs import Verb

CASES = ("nominative", "accusative", "dative", "genitive")
# Grammatical persons, by their German pronoun; "sie" is the third person plural.
PERSONS = ("ich", "du", "er", "wir", "sie")

# Endings by column: the genders m, f, n and the plural p; by row: the four cases.
_DER = {"m": "er en em es", "f": "e e er er", "n": "es es em es", "p": "e e en er"}
_EIN = {"m": "- en em es", "f": "e e er er", "n": "- - em es", "p": "e e en er"}
_WEAK = {"m": "e en en en", "f": "e e en en", "n": "e e en en", "p": "en en en en"}
_MIXED = {"m": "er en en en", "f": "e e en en", "n": "es es en en", "p": "en en en en"}
_STRONG = {"m": "er en em en", "f": "e e er er", "n": "es es em en", "p": "e e en er"}
_DEFINITE = {"m": "der den dem des", "f": "die die der der", "n": "das das dem des", "p": "die die den der"}

_CONTRACTIONS = {"in dem": "im", "in das": "ins", "an dem": "am", "von dem": "vom", "zu dem": "zum", "zu der": "zur"}
_CONTRACTED = re.compile(f"(in|an|von|zu)({MARKS}*) (dem|das|der)({MARKS}*) ")

# Without -e these would be read as other words: "dank" thanks to, "mal" just.
_IMPERATIVE_IN_E = ("danken", "malen")

_IRREGULAR = {
    "sein": ("bin", "bist", "ist", "sind", "sind"),
    "können": ("kann", "kannst", "kann", "können", "können"),
    "müssen": ("muss", "musst", "muss", "müssen", "müssen"),
    "wollen": ("will", "willst", "will", "wollen", "wollen"),
    "dürfen": ("darf", "darfst", "darf", "dürfen", "dürfen"),
    "sollen": ("sollte", "solltest", "sollte", "sollten", "sollten"),
    "mögen": ("möchte", "möchtest", "möchte", "möchten", "möchten"),
    "werden": ("werde", "wirst", "wird", "werden", "werden"),
    "haben": ("habe", "hast", "hat", "haben", "haben"),
    "wissen": ("weiß", "weißt", "weiß", "wissen", "wissen"),
    "war": ("war", "warst", "war", "waren", "waren"),
}


def _ending(table: dict[str, str], column: str, case: str) -> str:
    return table[column].split()[CASES.index(case)].strip("-")


def definite_article(column: str, case: str) -> str:
    """der, die, das; `column` is a gender "m", "f", "n" or "p" for the plural."""
    return _ending(_DEFINITE, column, case)


def der_word(stem: str, column: str, case: str) -> str:
    """A word that is inflected like the article: dies-, jed-, welch-."""
    return stem + _ending(_DER, column, case)


def ein_word(stem: str, column: str, case: str) -> str:
    """A word that is inflected like ein: kein, mein, dein, sein, ihr, unser."""
    return stem + _ending(_EIN, column, case)


def adjective_ending(declension: str, column: str, case: str) -> str:
    """The ending after a definite article ("weak"), after an ein-word ("mixed") or after neither ("strong")."""
    return _ending({"weak": _WEAK, "mixed": _MIXED, "strong": _STRONG}[declension], column, case)


def noun_form(noun: Noun, case: str, plural: bool) -> str:
    """The noun in a case and number: den Jungen, des Mannes, mit den Äpfeln."""
    if plural:
        form = noun.german_plural
        return form + "n" if case == "dative" and form[-1] not in "ns" else form
    if case == "nominative" or noun.gender == "f":
        return noun.german
    if noun.weak:
        return noun.german_plural
    if case == "genitive":
        one_syllable = len(re.findall("[aeiouyäöü]+", noun.german.lower())) == 1
        return noun.german + ("es" if one_syllable else "s")
    return noun.german


def conjugate(verb: Verb | str, person: str) -> str:
    """The present tense without a separable prefix; irregular verbs and `war` also by their name."""
    infinitive = verb if isinstance(verb, str) else verb.german
    place = PERSONS.index(person)
    if infinitive in _IRREGULAR:
        return _IRREGULAR[infinitive][place]
    changed = {"du": verb.du, "er": verb.er}.get(person)
    return changed or _regular(infinitive, person)


def _regular(infinitive: str, person: str) -> str:
    stem = infinitive.removesuffix("en")
    if person in ("wir", "sie"):
        return infinitive
    if person == "ich":
        return stem + "e"
    linking_e = "e" if stem[-1] in "dt" else ""
    if person == "er":
        return stem + linking_e + "t"
    return stem + ("t" if stem[-1] in "sßxz" else linking_e + "st")


def imperative(verb: Verb) -> str:
    """What one says to a friend, without a separable prefix: mach, lies, warte, trag."""
    stem = verb.german.removesuffix("en")
    # e becomes i or ie in the imperative too (lies, gib, hilf), a stays a (trag, lad).
    if verb.du and "i" in verb.du and "e" in stem:
        return verb.er.removesuffix("t")
    with_e = stem[-1] in "dt" or verb.german.endswith("ieren") or verb.german in _IMPERATIVE_IN_E
    return stem + ("e" if with_e else "")


def contract(text: str) -> str:
    """Preposition and article in one word where German has one: im, ins, am, vom, zum, zur."""
    found = _CONTRACTED.match(text)
    short = _CONTRACTIONS.get(f"{found[1]} {found[3]}") if found else None
    return f"{short}{found[2]}{found[4]} {text[found.end() :]}" if found and short else text
