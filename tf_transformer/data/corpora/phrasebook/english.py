"""English inflection: a and an, the third person, forms of be, do and have."""

from __future__ import annotations

_BE = {"ich": "am", "du": "are", "er": "is", "wir": "are", "sie": "are"}
_WAS = {"ich": "was", "du": "were", "er": "was", "wir": "were", "sie": "were"}


def article(following: str) -> str:
    """a or an before a word of the phrasebook, whose first letters are all pronounced as they are written."""
    return "an" if following[0] in "aeiou" else "a"


def third_person(base: str) -> str:
    """The verb with its -s, on the first word: waits for, carries, washes, has."""
    verb, _, rest = base.partition(" ")
    if verb in ("have", "do", "go"):
        form = {"have": "has", "do": "does", "go": "goes"}[verb]
    elif verb.endswith(("s", "sh", "ch", "x")):
        form = verb + "es"
    elif verb.endswith("y") and verb[-2] not in "aeiou":
        form = verb[:-1] + "ies"
    else:
        form = verb + "s"
    return f"{form} {rest}" if rest else form


def present(base: str, person: str) -> str:
    """The present tense; `person` is named by its German pronoun, as in `german.PERSONS`."""
    if base == "be":
        return _BE[person]
    return third_person(base) if person == "er" else base


def was(person: str) -> str:
    """was or were."""
    return _WAS[person]


def join(*words: str) -> str:
    """Words and phrases with single spaces between them; empty ones leave no gap."""
    return " ".join(word for word in words if word)
