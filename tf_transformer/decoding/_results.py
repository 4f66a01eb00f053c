"""Results of a translator for Python: translations, documents, and log-probabilities of pairs."""

from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf


class Translation(NamedTuple):
    """The translations of one sentence.

    texts: the translations, best first.
    log_probs: their log-probabilities, sums over tokens; empty where they were not computed.
    truncated: whether the sentence was too long and was truncated.
    sentences: how many sentences it is, where it should be one; None if unknown.
    """

    texts: list[str]
    log_probs: list[float]
    truncated: bool
    sentences: int | None = None


class DocumentTranslation(NamedTuple):
    """A translated text.

    text: the translation, with the line breaks, indentation and bullets of the source.
    sentences: how many sentences the source has.
    warnings: codes, none if all went well: "split" (a sentence was longer than the model's limit and was translated in
        parts), "truncated" (a part could not be made short enough).
    """

    text: str
    sentences: int
    warnings: tuple[str, ...]


class PairScore(NamedTuple):
    """The log-probability of one target given its source.

    log_prob: natural logarithm of its probability, the sum over tokens.
    tokens: number of tokens with EOS.
    truncated: whether source or target was too long and was truncated; None if unknown, as with an export.
    """

    log_prob: float
    tokens: int
    truncated: bool | None


def count_truncated(pairs: Iterable[PairScore]) -> int | None:
    """The number of truncated pairs; None if unknown."""
    truncated = [pair.truncated for pair in pairs]
    return None if None in truncated else sum(map(bool, truncated))


def to_translations(found: dict[str, tf.Tensor]) -> list[Translation]:
    """The outputs of the signature `nbest`, one `Translation` per row."""
    columns = [found[name].numpy() for name in ("translations", "scores", "truncated")]
    sentences = found["sentences"].numpy().tolist() if "sentences" in found else [None] * len(columns[0])
    return [
        Translation([text.decode("utf-8") for text in texts], log_probs.tolist(), bool(truncated), count)
        for texts, log_probs, truncated, count in zip(*columns, sentences)
    ]


def to_documents(found: dict[str, tf.Tensor]) -> list[DocumentTranslation]:
    """The outputs of the signature `document`, one `DocumentTranslation` per row."""
    columns = (found[name].numpy().tolist() for name in ("translation", "sentences", "warnings"))
    return [
        DocumentTranslation(text.decode("utf-8"), count, tuple(warnings.decode().split(",")) if warnings else ())
        for text, count, warnings in zip(*columns)
    ]


Texts = Iterable[str | bytes]


def to_bytes(texts: Texts, name: str) -> list[bytes]:
    """Texts as bytes. Lone surrogates become bytes that are not UTF-8, which the tokenizer replaces."""
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"{name} must be a list of strings. Received: one string. Put it into a list.")
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, (str, bytes)):
            raise ValueError(f"{name} must contain strings. Received: {name}[{index}] of type {type(text).__name__}.")
    return [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts]
