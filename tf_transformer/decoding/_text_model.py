"""Translation of lines with a Translator in memory or with an exported SavedModel."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_transformer._model_versions import newest_version
from tf_transformer.decoding._batching import in_batches, parallel_batches
from tf_transformer.decoding._results import (
    Alignment,
    DocumentTranslation,
    PairScore,
    Translation,
    to_alignments,
    to_documents,
    to_translations,
)
from tf_transformer.decoding._translator import Translator
from tf_transformer.text import LanguageError, Languages, as_cell, as_line, chunks

DOCUMENT = "document"
"""The signature of whole texts. An export without it treats each text as one sentence."""
TRANSLATE_TO = "translate_to"
"""The signature of multilingual exports: each text to its own language."""


class LoadedModel:
    """A Translator, as the commands use it.

    Attributes:
        name: what messages call it.
        target_language: its code, where it is known.
        limit: translations that a text has at most.
        segments: whether `translate` translates texts sentence by sentence.
    """

    def __init__(self, translator: Translator, name: str = "The model", target_language: str | None = None):
        self._translator = translator
        self.name = name
        self.target_language = target_language or translator.target_language
        self.limit = translator.decoding.beam_size
        self.segments = translator.decoding.segmentation

    @property
    def languages(self) -> Languages | None:
        """The languages of a multilingual model; None: it has one pair."""
        return self._translator.languages

    def for_languages(self, source: str | None, target: str | None) -> "LoadedModel":
        """The same model for other languages; those that are None stay."""
        translator = self._translator.for_languages(source, target)
        return LoadedModel(translator, self.name, target or self.target_language)

    def translate(self, texts: Sequence[bytes]) -> list[Translation]:
        """The best translation of each text, without a score, and whether the text was truncated."""
        return self._translator.best(texts)

    def translate_sentences(self, texts: Sequence[bytes]) -> list[Translation]:
        """As `translate`, but each text is treated as one sentence, as the lines of a test set are."""
        return self._translator.best(texts, as_sentences=True)

    def translate_document(self, texts: Sequence[bytes]) -> list[DocumentTranslation]:
        return self._translator.translate_document(texts)

    def nbest(self, texts: Sequence[bytes]) -> list[Translation]:
        return self._translator.nbest(texts)

    def align(self, texts: Sequence[bytes]) -> list[Alignment]:
        return self._translator.align(texts)

    def score(self, sources: Sequence[bytes], targets: Sequence[bytes]) -> list[PairScore]:
        """The log-probability of each target given its source, its number of tokens, and whether it was truncated."""
        return self._translator.score(sources, targets)


class ExportedModel:
    """The signatures of a SavedModel: the attributes and methods of `LoadedModel`.

    Args:
        path: a version of an export, or the directory of its versions.
        target_language: of a multilingual export, if it is not the one that was fixed: `translate` alone has others.
    """

    def __init__(self, path: str | os.PathLike, target_language: str | None = None):
        import tensorflow_text  # noqa: F401  registers the ops of the tokenizer, the one thing a SavedModel lacks

        self.path = newest_version(path)
        self.name = str(self.path)
        # Kept: variables and tables live as long as the object that owns them.
        self._loaded = tf.saved_model.load(str(self.path))
        self._other: str | None = None
        self.limit = self._signature("nbest").structured_outputs["translations"].shape[1]
        self.segments = DOCUMENT in self._loaded.signatures
        self._pair = _card_languages(self.path)
        self._other = None if target_language == self._pair.get("target") else target_language
        if self._other is not None:
            self._check_target(self._other)

    @classmethod
    def has_languages(cls, path: str | os.PathLike) -> bool:
        """Whether an export, which is not loaded, has a target language per row."""
        return bool(_card_languages(newest_version(path)).get("targets"))

    @property
    def target_language(self) -> str | None:
        """The chosen target language, else that of the model card; None if there is none."""
        return self._other or self._pair.get("target")

    def _check_target(self, code: str) -> None:
        codes = self._pair.get("targets") if TRANSLATE_TO in self._loaded.signatures else None
        if codes:
            Languages(dict.fromkeys(codes, 0)).check("target", code)
        elif TRANSLATE_TO not in self._loaded.signatures:
            raise LanguageError(
                f"Expected {self._pair.get('target')!r}, the target language of {self.path}. Received: {code!r}. Leave "
                "it out, or export a multilingual model."
            )

    def translate(self, texts: Sequence[bytes]) -> list[Translation]:
        if self._other is not None:
            return self._translate_to(texts, self._other.encode())
        if not self.segments:
            return self.translate_sentences(texts)
        call = self._signature("serving_default")

        def of_batch(batch: list[bytes]) -> list[Translation]:
            # Nothing is truncated: longer sentences are split.
            found = call(text=_strings(batch))["translation"].numpy()
            return [Translation([text.decode("utf-8")], [], truncated=False) for text in found]

        return in_batches(of_batch, texts)

    def _translate_to(self, texts: Sequence[bytes], code: bytes) -> list[Translation]:
        call = self._loaded.signatures[TRANSLATE_TO]

        def of_batch(batch: list[bytes]) -> list[Translation]:
            found = call(text=_strings(batch), target_language=_strings([code] * len(batch)))["translation"].numpy()
            return [Translation([text.decode("utf-8")], [], truncated=False) for text in found]

        return in_batches(of_batch, texts)

    def translate_sentences(self, texts: Sequence[bytes]) -> list[Translation]:
        # `nbest` alone treats each text as one sentence, and reports which were truncated.
        return [found._replace(texts=found.texts[:1], log_probs=found.log_probs[:1]) for found in self.nbest(texts)]

    def translate_document(self, texts: Sequence[bytes]) -> list[DocumentTranslation]:
        call = self._signature(DOCUMENT)
        return in_batches(lambda batch: to_documents(call(text=_strings(batch))), texts)

    def nbest(self, texts: Sequence[bytes]) -> list[Translation]:
        call = self._signature("nbest")
        return in_batches(lambda batch: to_translations(call(text=_strings(batch))), texts)

    def align(self, texts: Sequence[bytes]) -> list[Alignment]:
        call = self._signature("alignment")
        return in_batches(lambda batch: to_alignments(call(text=_strings(batch))), texts)

    def score(self, sources: Sequence[bytes], targets: Sequence[bytes]) -> list[PairScore]:
        """As a LoadedModel's, but the signature does not report which pairs were truncated."""
        call = self._signature("score")

        def of_batch(source: list[bytes], target: list[bytes]) -> list[PairScore]:
            found = call(source=_strings(source), target=_strings(target))
            columns = found["score"].numpy().tolist(), found["tokens"].numpy().tolist()
            return [PairScore(*row, truncated=None) for row in zip(*columns)]

        return in_batches(of_batch, sources, targets)

    def _signature(self, name: str) -> Any:
        signatures = self._loaded.signatures
        if self._other is not None:
            raise LanguageError(
                f"Expected {self._pair.get('target')!r}, the language that the signature {name} of {self.path} "
                f"translates to. Received: {self._other!r}. Export with --target-language {self._other}."
            )
        if name not in signatures:
            known = ", ".join(signatures) or "none"
            raise ValueError(
                f"Expected a SavedModel with the signature {name}. Received: {self.path} with {known}. Write one with "
                "`tf-transformer export`."
            )
        return signatures[name]


def _card_languages(path: pathlib.Path) -> dict:
    """The languages in the model card of an export; none where there is no card."""
    card = path / "model.json"
    return json.loads(card.read_bytes()).get("languages") or {} if card.is_file() else {}


def _strings(texts: Sequence[bytes]) -> tf.Tensor:
    # An array of objects: arrays of NumPy's own bytes lose NULs at the end.
    return tf.constant(np.array(texts, dtype=object), tf.string)


CHUNK_LINES = 4096
CHUNK_BYTES = 4 << 20
# Scores at or below this stand for hypotheses that a search did not find.
_NONE = -1e8


@dataclasses.dataclass
class LineTranslation:
    """Lines in, translated lines out.

    Args:
        model: what translates, a `LoadedModel` or an `ExportedModel`.
        nbest: None for one line per line; otherwise a table with so many rows per line: number of the line, rank,
            log-probability, text.
        alignment: None, or the form of a line with word alignment: "pharaoh" or "json".
        chunk_lines: lines held at a time; within them, lines of similar length are translated together.
        done: called with the number of lines of each batch.

    Attributes:
        lines: how many lines were translated.
        truncated: the numbers of the first few truncated lines, counted from 1.
        num_truncated: how many lines were truncated.
        num_several: with `nbest` or `alignment`, how many have several sentences, where a line is treated as one.
    """

    model: Any
    nbest: int | None = None
    chunk_lines: int = CHUNK_LINES
    done: Callable[[int], None] | None = None
    alignment: str | None = None
    lines: int = 0
    truncated: list[int] = dataclasses.field(default_factory=list)
    num_truncated: int = 0
    num_several: int = 0

    def __post_init__(self) -> None:
        if self.nbest is not None and not 1 <= self.nbest <= self.model.limit:
            raise ValueError(
                f"Expected from 1 to {self.model.limit} translations per line from {self.model.name}. Received: "
                f"{self.nbest}. Request fewer, or raise the beam size."
            )

    def __call__(self, lines: Iterable[bytes]) -> Iterator[str]:
        """Lines to text to write: for each chunk its translations, each with a line feed."""
        call = self.model.translate if self.nbest is None else self.model.nbest
        call, output = (call, self._output) if self.alignment is None else (self.model.align, self._aligned)
        for chunk in chunks(lines, self.chunk_lines, CHUNK_BYTES):
            yield "".join(map(output, in_batches(call, chunk, threads=parallel_batches(), done=self.done)))

    def _aligned(self, found: Alignment) -> str:
        self.lines += 1
        self.num_several += (found.sentences or 1) > 1
        if self.alignment == "json":
            return json.dumps(found.to_dict(), ensure_ascii=False) + "\n"
        sides = [" ".join(word.text for word in side) for side in (found.source, found.target)]
        return " ||| ".join([*sides, found.pharaoh()]) + "\n"

    def _output(self, found: Translation) -> str:
        self.lines += 1
        self.num_several += (found.sentences or 1) > 1
        if found.truncated:
            self.num_truncated += 1
            self.truncated = [*self.truncated, self.lines][:5]
        if self.nbest is None:
            return as_line(found.texts[0]) + "\n"
        return "".join(self._row(found, rank) for rank in range(self.nbest))

    def _row(self, found: Translation, rank: int) -> str:
        # A search may find fewer hypotheses than were requested. The first row is always written.
        if rank > 0 and found.log_probs[rank] <= _NONE:
            return ""
        return f"{self.lines}\t{rank + 1}\t{found.log_probs[rank]:.6f}\t{as_cell(found.texts[rank])}\n"
