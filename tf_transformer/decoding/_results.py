"""Results of a translator for Python: translations, documents, alignments, and log-probabilities of pairs."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding._checks import sentence_warnings
from tf_transformer.text import Word


class Translation(NamedTuple):
    """The translations of one sentence.

    texts: the translations, best first.
    log_probs: their log-probabilities, sums over tokens; empty where they were not computed.
    truncated: whether the sentence was too long and was truncated.
    sentences: how many sentences it is, where it should be one; None if unknown.
    warnings: codes, none if all went well or nothing was checked: see `WARNINGS`.
    """

    texts: list[str]
    log_probs: list[float]
    truncated: bool
    sentences: int | None = None
    warnings: tuple[str, ...] = ()


class DocumentTranslation(NamedTuple):
    """A translated text.

    text: the translation, with the line breaks, indentation and bullets of the source.
    sentences: how many sentences the source has.
    warnings: codes, none if all went well: see `WARNINGS`.
    """

    text: str
    sentences: int
    warnings: tuple[str, ...]


class Alignment(NamedTuple):
    """A translation with the words of both texts and the links between them.

    translation: the translation.
    source, target: the words of text and translation, with offsets in characters.
    confidences: per target word, the lowest probability of its pieces: 0 to 1.
    links: pairs of numbers of words, the source's first.
    sentences: how many sentences the text is, where it should be one; None if unknown.
    """

    translation: str
    source: list[Word]
    target: list[Word]
    confidences: list[float]
    links: list[tuple[int, int]]
    sentences: int | None = None

    def pharaoh(self) -> str:
        """The links as text: "0-0 1-2", numbers of words counted from 0, the source's first."""
        return " ".join(f"{source}-{target}" for source, target in self.links)

    def to_dict(self) -> dict:
        """A dictionary for JSON: words with "text", "start" and "end", those of the target with "confidence"."""
        target = [word._asdict() | {"confidence": each} for word, each in zip(self.target, self.confidences)]
        values = {"translation": self.translation, "source": [word._asdict() for word in self.source]}
        return values | {"target": target, "links": self.links, "sentences": self.sentences}


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


def to_pair_scores(found: dict[str, tf.Tensor]) -> list[PairScore]:
    """The outputs of the signature `score` with "truncated", one `PairScore` per row."""
    columns = (found[name].numpy().tolist() for name in ("score", "tokens", "truncated"))
    return [PairScore(*row) for row in zip(*columns)]


def to_best(found: dict[str, tf.Tensor]) -> list[Translation]:
    """The outputs of `Translator._best`, one `Translation` with one text per row."""
    codes = found["warnings"] if "warnings" in found else sentence_warnings(found)
    columns = (found["translation"].numpy(), found["truncated"].numpy().tolist(), codes.numpy())
    return [
        Translation([text.decode("utf-8")], [], truncated, None, _split(code))
        for text, truncated, code in zip(*columns)
    ]


def _split(codes: bytes) -> tuple[str, ...]:
    return tuple(codes.decode().split(",")) if codes else ()


def to_documents(found: dict[str, tf.Tensor]) -> list[DocumentTranslation]:
    """The outputs of the signature `document`, one `DocumentTranslation` per row."""
    columns = (found[name].numpy().tolist() for name in ("translation", "sentences", "warnings"))
    return [
        DocumentTranslation(text.decode("utf-8"), count, _split(warnings)) for text, count, warnings in zip(*columns)
    ]


def to_alignments(found: dict[str, tf.Tensor]) -> list[Alignment]:
    """The outputs of the signature `alignment`, one `Alignment` per row."""
    columns = {name: value.numpy().tolist() for name, value in found.items()}
    sentences = columns.get("sentences") or [None] * len(columns["translation"])
    sides = [[columns[f"{side}_{name}"] for name in ("words", "starts", "ends")] for side in ("source", "target")]
    rows = zip(columns["translation"], *(map(_words, *side) for side in sides), columns["confidences"], sentences)
    links = [[(i, j) for i, j in pairs if i >= 0] for pairs in columns["links"]]
    return [
        Alignment(text.decode("utf-8", "replace"), source, target, confidences[: len(target)], own, count)
        for (text, source, target, confidences, count), own in zip(rows, links)
    ]


def _words(texts: list[bytes], starts: list[int], ends: list[int]) -> list[Word]:
    return [Word(text.decode("utf-8"), *place) for text, *place in zip(texts, starts, ends) if text]


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


def to_columns(columns: Mapping[str, Texts]) -> list[list[bytes]]:
    """Columns of texts as bytes; ValueError unless they have the same size."""
    encoded = {label: to_bytes(column, label) for label, column in columns.items()}
    sizes = {label: len(column) for label, column in encoded.items()}
    if len(set(sizes.values())) > 1:
        received = " and ".join(f"{size} {label}" for label, size in sizes.items())
        raise ValueError(f"There must be as many {' as '.join(columns)}. Received: {received}.")
    return list(encoded.values())


def given(**arguments: Any) -> dict[str, Any]:
    """The arguments that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}
