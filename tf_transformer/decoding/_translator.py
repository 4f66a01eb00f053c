"""Translator: strings in, strings out, for `translate`, `evaluate`, the export and Python."""

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any, overload

import tensorflow as tf

from tf_transformer.config import DecodingConfig
from tf_transformer.decoding._alignment import align_words, alignment_heads, cross_attention, side_of_ids, side_of_text
from tf_transformer.decoding._batching import in_batches
from tf_transformer.decoding._checks import LengthRange
from tf_transformer.decoding._documents import padded_segments, translate_texts
from tf_transformer.decoding._results import (
    Alignment,
    DocumentTranslation,
    PairScore,
    Texts,
    Translation,
    given,
    to_alignments,
    to_best,
    to_columns,
    to_documents,
    to_pair_scores,
    to_translations,
)
from tf_transformer.decoding._search import require_tensorflow
from tf_transformer.decoding._sentence_translator import SentenceTranslator
from tf_transformer.decoding._shortlist import CandidateTable, Shortlist
from tf_transformer.model import Transformer
from tf_transformer.text import LanguageError, Languages, TokenizerPair

TEXT = tf.TensorSpec([None], tf.string)


class Translator(SentenceTranslator):
    """A model with its tokenizers and a search. It needs Keras on TensorFlow.

    With string tensors, `translate`, `document`, `nbest`, `score`, `attention`, `alignment` and `segments` are graph
    functions, the signatures of an export; `translate_to` is another one if the model is multilingual. Each row is
    independent of the others. An empty source gives "".

    `document` translates texts of any number of sentences and lines, and so does `translate` if `decoding.segmentation`
    is set. The other methods treat each text as one sentence, and count its sentences.

    Args:
        model: a `Transformer`; its weights may change between calls.
        tokenizers: those it was trained with.
        decoding: the search.
        source_language: code of the texts' language, for segmentation and for the tokens of a multilingual model.
        shortlist: restricts each translation to the candidates of its source; log-probabilities are then relative to
            these candidates, except those of `score`.
        usual_lengths: of translations, for failure detection (see `LengthRange.from_dataset`).
        target_language: of a multilingual model.

    Example:
        translator = Translator.from_workdir("run", beam_size=5)
        translator(["Hello world."])
        translator(["Hello world."], source_language="eng_Latn", target_language="deu_Latn")  # a multilingual model
    """

    def __init__(
        self,
        model: Transformer,
        tokenizers: TokenizerPair,
        decoding: DecodingConfig | None = None,
        source_language: str | None = None,
        shortlist: Shortlist | CandidateTable | None = None,
        usual_lengths: LengthRange | None = None,
        target_language: str | None = None,
    ):
        super().__init__(model, tokenizers, decoding, source_language, shortlist, usual_lengths, target_language)
        self._heads = alignment_heads(self.decoding.alignment_heads, model.config)
        # Not dictionaries: TensorFlow would follow them and write the functions into every export.
        self._function = functools.cache(self._traced_function)
        self._others = functools.cache(
            lambda *pair: Translator(model, tokenizers, self.decoding, pair[0], shortlist, usual_lengths, pair[1])
        )

    @classmethod
    def from_workdir(
        cls,
        path: str | os.PathLike,
        checkpoint: str | os.PathLike = "auto",
        shortlist: Shortlist | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        **decoding: Any,
    ) -> "Translator":
        """The translator of a work directory. `decoding` are fields of `DecodingConfig` to change.

        Languages that are not given are those that the work directory names.
        """
        from tf_transformer.workdir import Workdir

        require_tensorflow()
        workdir = Workdir(path)
        config, data = dataclasses.replace(workdir.config.decoding, **decoding), workdir.dataset_info
        source, target = workdir.language_pair(source_language, target_language)
        model = workdir.load_model(checkpoint, for_inference=True, rows=shortlist is not None)
        usual = LengthRange.from_dataset(data)
        return cls(model, workdir.tokenizers, config, source, shortlist, usual, target)

    @property
    def languages(self) -> Languages | None:
        """The languages of a multilingual model; None: it has one pair."""
        return self._tokens.languages

    @property
    def source_language(self) -> str | None:
        return self._tokens.source

    @property
    def target_language(self) -> str | None:
        return self._tokens.target

    def for_languages(self, source: str | None = None, target: str | None = None) -> "Translator":
        """A translator of the same model for other languages. Languages that are not given stay."""
        pair = source or self.source_language, target or self.target_language
        if pair == (self.source_language, self.target_language):
            return self
        if self.languages is None and target not in (None, self.target_language):
            self._tokens.check_target(str(target))
        if self.languages is None and self.source_language not in (None, pair[0]):
            raise LanguageError(
                f"Expected {self.source_language!r}, the source language of the model. Received: {source!r}. Leave it "
                "out, or use a multilingual model."
            )
        return self._others(*pair)

    def __call__(
        self,
        texts: Texts,
        prefixes: Texts | None = None,
        source_language: str | None = None,
        target_language: str | list[str] | None = None,
    ) -> list[str]:
        """The best translation of each text, in their order.

        Args:
            prefixes: what the translations must begin with.
            source_language: of the texts; None: that of the translator.
            target_language: of a multilingual model, one for all texts or one per text; None: that of the translator.
        """
        translator = self.for_languages(source_language)
        if target_language is None or (self.languages is None and target_language == self.target_language):
            return translator._translations("translate", texts=texts, **given(prefixes=prefixes))
        texts = texts if isinstance(texts, str | bytes) else list(texts)
        codes = [target_language] * len(texts) if isinstance(target_language, str) else list(target_language)
        for code in dict.fromkeys(codes):
            translator._tokens.check_target(code)
        return translator._translations("_to", texts=texts, target_languages=codes, **given(prefixes=prefixes))

    def _translations(self, name: str, **columns: Texts) -> list[str]:
        def rows(found: dict[str, tf.Tensor]) -> list[str]:
            return [text.decode("utf-8") for text in found["translation"].numpy()]

        return self._rows(name, rows, **columns)

    def best(self, texts: Texts, as_sentences: bool = False) -> list[Translation]:
        """The best translation of each text, in their order, without log-probability, and its warnings.

        Args:
            as_sentences: whether each text is treated as one sentence, whatever it contains.
        """
        return self._rows("_of_sentences" if as_sentences else "_best", to_best, texts=texts)

    def translate_document(self, texts: Texts) -> list[DocumentTranslation]:
        """Each text translated sentence by sentence; line breaks, blank lines, indentation and bullets stay."""
        return self._rows("document", to_documents, texts=texts)

    @overload
    def nbest(self, texts: list[str] | list[bytes], prefixes: Texts | None = None) -> list[Translation]: ...

    @overload
    def nbest(self, texts: Texts, prefixes: Texts | None = None) -> Any: ...

    def nbest(self, texts: Any, prefixes: Any = None) -> Any:
        """The K best translations of each text, in the order of the search's scores.

        Lists give one `Translation` per text. A string tensor [N] gives the outputs of the signature `nbest`,
        {"translations": [N, K], "scores": [N, K] float32, "truncated": [N] bool, "sentences": [N] int32}. The "scores"
        are log-probabilities; the search orders by these divided by the length penalty, plus the length reward and the
        coverage penalty, so they need not fall from left to right.
        """
        if tf.is_tensor(texts):
            return self._nbest(texts, prefixes)
        return self._rows("_nbest", to_translations, texts=texts, **given(prefixes=prefixes))

    @overload
    def score(self, sources: list[str] | list[bytes], targets: list[str] | list[bytes]) -> list[PairScore]: ...

    @overload
    def score(self, sources: Texts, targets: Texts) -> Any: ...

    def score(self, sources: Any, targets: Any) -> Any:
        """The log-probability of each target given its source, and the number of its tokens with EOS.

        Lists give one `PairScore` per pair. String tensors [N] give the outputs of the signature `score`,
        {"score": [N] float32, "tokens": [N] int32, "sentences": [N] int32 of the source}, in the model's precision.
        """
        if tf.is_tensor(sources):
            found = self._score(sources, targets)
            return {name: found[name] for name in ("score", "tokens")} | self._sentences(sources)
        return self._rows("_score", to_pair_scores, sources=sources, targets=targets)

    def align(self, texts: Texts, targets: Texts | None = None) -> list[Alignment]:
        """The words of each text and of its translation (the model's, or `targets`), their links and confidences."""
        return self._rows("alignment", to_alignments, texts=texts, **given(targets=targets))

    def translate(self, text: tf.Tensor, prefix: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """[N] string -> {"translation": [N] string}. `prefix`, [N] string, is what each must begin with."""
        return {"translation": self._best(text, prefix)["translation"]}

    def translate_to(self, text: tf.Tensor, target_language: tf.Tensor) -> dict[str, tf.Tensor]:
        """[N] string, [N] string -> {"translation": [N] string}: each text to its own target language.

        A row with an unknown code has the translation "". If all rows have unknown codes, InvalidArgumentError.
        """
        return self._to(tf.where(self._tokens.known(target_language), text, ""), target_language)

    def _to(self, text: tf.Tensor, target_language: tf.Tensor, prefix: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        return {"translation": self._best(text, prefix, target_language)["translation"]}

    def document(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Texts of any length: [N] string -> {"translation": [N], "sentences": [N] int32, "warnings": [N]}.

        Line breaks, blank lines, indentation and bullets stay. `warnings` are codes with commas between them: see
        `DocumentTranslation`.
        """
        found = self._of_texts(text, keep_single=False)
        return {name: found[name] for name in ("translation", "sentences", "warnings")}

    def segments(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The sentences that `document` translates, and the separators around them: see `padded_segments`."""
        return padded_segments(self._segmenter, text)

    def attention(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The best translation with the decoder's cross-attention weights.

        [N] string -> {"source_tokens": [N, S] string, "target_tokens": [N, T] string, "attention": [N, layers, H, T, S]
        float32, "sentences": [N] int32}. Row t of the weights is the step that wrote target token t. Padding has the
        token "".
        """
        source = self._read(text)
        found = self._search(source, text, nbest=1, prefix=self._read_prefix(None, source))
        tokenizers = TokenizerPair(self.source_tokenizer, self.target_tokenizer)
        return cross_attention(self.model, tokenizers, source, found) | self._sentences(text)

    def alignment(self, text: tf.Tensor, target: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """The best or a given translation, the words of both texts, links between them, and a confidence per word.

        [N] string -> {"translation": [N] string, "source_words": [N, S] string, "source_starts", "source_ends": [N, S]
        int32 (characters), the same for "target" [N, T], "confidences": [N, T] float32, "links": [N, L, 2] int32
        (numbers of source and target word), "sentences": [N] int32}. Padding is "", 0.0 and -1.
        """
        source, read = side_of_text(text, self.source_tokenizer, self._longest_text)
        read = self._tokens.read(read)
        source = self._tokens.aligned(source, read, "source")
        begin = self._read_prefix(None, read)
        if target is not None:
            longest = self.longest_target - self._tokens.target_tokens
            other, written = side_of_text(target, self.target_tokenizer, longest)
            other = self._tokens.aligned(other, self._tokens.begin(written, read) or written, "target")
        else:
            found = self._search(read, text, nbest=1, prefix=begin)
            ids, lengths = found.ids[:, 0], found.lengths[:, 0]
            other = side_of_ids(ids, lengths, self.target_tokenizer, *self._written(ids, read, text))
        return align_words(self.model, source, other, self._heads) | self._sentences(text)

    def _best(
        self, text: tf.Tensor, prefix: tf.Tensor | None = None, target: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """The outputs of `translate`, and "truncated" [N] bool."""
        if self.decoding.segmentation:
            return self._of_texts(text, prefix, target, keep_single=True)
        return self._of_sentences(text, prefix, target)

    def _of_texts(
        self, text: tf.Tensor, prefix: tf.Tensor | None = None, target: tf.Tensor | None = None, *, keep_single: bool
    ) -> dict[str, tf.Tensor]:
        """Texts sentence by sentence; a prefix is that of the first sentence."""
        source = self._segmenter, self.source_tokenizer, self._longest_text
        return translate_texts(self._of_sentences, *source, text, prefix, target, keep_single)

    def _rows(self, name: str, rows: Callable[[dict[str, tf.Tensor]], list], **columns: Texts) -> list:
        """Call a graph method on texts of any number, in batches sorted by length."""
        function = self._function(name, len(columns))
        return in_batches(lambda *batch: rows(function(*map(tf.constant, batch))), *to_columns(columns))

    def _traced_function(self, name: str, inputs: int) -> Callable:
        """A graph method as a TensorFlow function that is traced once, whatever the shapes."""
        return tf.function(getattr(self, name), input_signature=[TEXT] * inputs, autograph=False)
