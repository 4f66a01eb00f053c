"""Translations as Python sees them, and the texts they are made from."""

from collections.abc import Iterable
from typing import NamedTuple


class Translation(NamedTuple):
    """What is known of one sentence.

    texts: its translations, from the best on.
    scores: their log-probabilities.
    truncated: whether the sentence was too long and cut.
    """

    texts: list[str]
    scores: list[float]
    truncated: bool


class PairScore(NamedTuple):
    """What a model says of one target given its source.

    log_prob: the natural logarithm of its probability.
    tokens: how many it has, END counted.
    truncated: whether source or target was too long and cut; None where the model does not tell, as an export.
    """

    log_prob: float
    tokens: int
    truncated: bool | None


def count_truncated(pairs: Iterable[PairScore]) -> int | None:
    """How many pairs were cut; None where the model does not tell."""
    cut = [pair.truncated for pair in pairs]
    return None if None in cut else sum(cut)


def to_translations(found) -> list[Translation]:
    """The rows of what `Translator.nbest` returns."""
    columns = (found[name].numpy() for name in ("translations", "scores", "truncated"))
    return [
        Translation([text.decode("utf-8") for text in texts], scores.tolist(), bool(truncated))
        for texts, scores, truncated in zip(*columns)
    ]


def to_bytes(texts: Iterable[str | bytes], name: str) -> list[bytes]:
    """Texts as bytes. Lone surrogates become bytes that are not UTF-8, which the tokenizer replaces."""
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"{name} must be a list of strings, not one string; put it into a list.")
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, (str, bytes)):
            raise ValueError(f"{name} must hold strings; {name}[{index}] is of type {type(text).__name__}. Convert it.")
    return [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts]
