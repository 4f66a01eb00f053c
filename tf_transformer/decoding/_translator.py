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
from tf_transformer.decoding._checks import Checked, CheckedSearch, LengthRange, unchecked
from tf_transformer.decoding._documents import count_sentences, padded_segments, translate_texts
from tf_transformer.decoding._options import Hypotheses
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
from tf_transformer.decoding._sampling import SamplingOptions
from tf_transformer.decoding._search import (
    Ids,
    check_tokenizers,
    either_truncated,
    require_tensorflow,
    score_ids,
    search_ids,
    search_options,
    search_rows,
    text_read,
    text_to_ids,
    with_seeds,
)
from tf_transformer.decoding._shortlist import Shortlist, candidate_table
from tf_transformer.decoding._unknown import copy_unknown, forbidden_unk
from tf_transformer.model import Transformer
from tf_transformer.text import Segmenter, TokenizerPair

TEXT = tf.TensorSpec([None], tf.string)


class Translator(tf.Module):
    """A model with its tokenizers and a search. It needs Keras on TensorFlow.

    With string tensors, `translate`, `document`, `nbest`, `score`, `attention`, `alignment` and `segments` are graph
    functions, the signatures of an export. Each row is independent of the others. An empty source gives "".

    `document` translates texts of any number of sentences and lines, and so does `translate` if `decoding.segmentation`
    is set. The other methods treat each text as one sentence, and count its sentences.

    Args:
        model: a `Transformer`; its weights may change between calls.
        tokenizers: those it was trained with.
        decoding: the search.
        source_language: code of the texts' language, for segmentation.
        shortlist: restricts each translation to the candidates of its source; log-probabilities are then relative to
            these candidates, except those of `score`.
        usual_lengths: of translations, for failure detection (see `LengthRange.from_dataset`).

    Example:
        translator = Translator.from_workdir("run", beam_size=5)
        translator(["Hello world."])
    """

    def __init__(
        self,
        model: Transformer,
        tokenizers: TokenizerPair,
        decoding: DecodingConfig | None = None,
        source_language: str | None = None,
        shortlist: Shortlist | None = None,
        usual_lengths: LengthRange | None = None,
    ):
        super().__init__(name="translator")
        require_tensorflow()
        check_tokenizers(model.config, tokenizers)
        self.decoding = decoding or DecodingConfig()
        self.model = model
        self.source_tokenizer, self.target_tokenizer = tokenizers.source, tokenizers.target
        self._heads = alignment_heads(self.decoding.alignment_heads, model.config)
        self._segmenter = Segmenter(source_language)
        self.shortlist = candidate_table(shortlist, tokenizers, self.decoding.sampling)
        self._checked_search = CheckedSearch(model, usual_lengths or LengthRange(), self.shortlist)
        # Not a dictionary: TensorFlow would follow it and write the functions into every export.
        self._function = functools.cache(self._traced_function)

    @classmethod
    def from_workdir(
        cls,
        path: str | os.PathLike,
        checkpoint: str | os.PathLike = "auto",
        shortlist: Shortlist | None = None,
        **decoding: Any,
    ) -> "Translator":
        """The translator of a work directory. `decoding` are fields of `DecodingConfig` to change."""
        from tf_transformer.workdir import Workdir

        require_tensorflow()
        workdir = Workdir(path)
        config, data = dataclasses.replace(workdir.config.decoding, **decoding), workdir.dataset_info
        model, usual = workdir.load_model(checkpoint, for_inference=True), LengthRange.from_dataset(data)
        return cls(model, workdir.tokenizers, config, data.get("source_language"), shortlist, usual)

    def __call__(self, texts: Texts, prefixes: Texts | None = None) -> list[str]:
        """The best translation of each text, in their order. `prefixes` are what the translations must begin with."""

        def rows(found: dict[str, tf.Tensor]) -> list[str]:
            return [text.decode("utf-8") for text in found["translation"].numpy()]

        return self._rows("translate", rows, texts=texts, **given(prefixes=prefixes))

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
        """The K best translations of each text, in the order of their scores.

        Lists give one `Translation` per text. A string tensor [N] gives the outputs of the signature `nbest`,
        {"translations": [N, K], "scores": [N, K] float32, "truncated": [N] bool, "sentences": [N] int32}. The "scores"
        are log-probabilities; the search divides them by the length penalty, so they need not fall from left to right.
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
        found = self._search(source, text, nbest=1)
        tokenizers = TokenizerPair(self.source_tokenizer, self.target_tokenizer)
        return cross_attention(self.model, tokenizers, source, found) | self._sentences(text)

    def alignment(self, text: tf.Tensor, target: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """The best or a given translation, the words of both texts, links between them, and a confidence per word.

        [N] string -> {"translation": [N] string, "source_words": [N, S] string, "source_starts", "source_ends": [N, S]
        int32 (characters), the same for "target" [N, T], "confidences": [N, T] float32, "links": [N, L, 2] int32
        (numbers of source and target word), "sentences": [N] int32}. Padding is "", 0.0 and -1.
        """
        source, read = side_of_text(text, self.source_tokenizer, self.longest_source)
        if target is not None:
            other, _ = side_of_text(target, self.target_tokenizer, self.longest_target)
        else:
            found = self._search(read, text, nbest=1)
            other = side_of_ids(found.ids[:, 0], found.lengths[:, 0], self.target_tokenizer)
        return align_words(self.model, source, other, self._heads) | self._sentences(text)

    def _best(self, text: tf.Tensor, prefix: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """The outputs of `translate`, and "truncated" [N] bool."""
        if self.decoding.segmentation:
            return self._of_texts(text, prefix, keep_single=True)
        return self._of_sentences(text, prefix)

    def _of_texts(self, text: tf.Tensor, prefix: tf.Tensor | None = None, *, keep_single: bool) -> dict[str, tf.Tensor]:
        """Texts sentence by sentence; a prefix is that of the first sentence."""
        source = self._segmenter, self.source_tokenizer, self.longest_source
        return translate_texts(self._of_sentences, *source, text, prefix, keep_single)

    def _sentences(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """How many sentences each text has, where it should be one; nothing if segmentation is off."""
        return {"sentences": count_sentences(self._segmenter.segment(text))} if self.decoding.segmentation else {}

    def _of_sentences(self, text: tf.Tensor, prefix: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """Each text as one sentence. It stops earlier than `nbest`, which needs all K."""
        source, forced = self._read(text), self._read_prefix(prefix)
        found, failed, retried = self._search_checked(source, text, nbest=1, prefix=forced)
        outputs = {"translation": self._texts(found.ids[:, 0], source, text), "failed": failed, "retried": retried}
        return outputs | {"truncated": either_truncated(source, forced)}

    def _nbest(self, text: tf.Tensor, prefix: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """The signature `nbest`."""
        source, forced = self._read(text), self._read_prefix(prefix)
        found = self._search(source, text, prefix=forced)
        shape = tf.shape(found.lengths)
        flat = tf.reshape(found.ids, [shape[0] * shape[1], tf.shape(found.ids)[2]])
        repeated = Ids(*(tf.repeat(column, shape[1], axis=0) for column in source))
        texts = tf.reshape(self._texts(flat, repeated, tf.repeat(text, shape[1])), shape)
        scores = tf.where(found.lengths > 0, found.log_probs, -1e9)
        scores = tf.where(source.empty[:, None], 0.0, scores)
        texts, scores = (tf.ensure_shape(tensor, [None, self.decoding.beam_size]) for tensor in (texts, scores))
        outputs = {"translations": texts, "scores": scores, "truncated": either_truncated(source, forced)}
        return outputs | self._sentences(text)

    def _score(self, sources: tf.Tensor, targets: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `score`, and "truncated" [N] bool: whether source or target was truncated."""
        source = self._read(sources)
        target = text_to_ids(targets, self.target_tokenizer, self.longest_target)
        score = score_ids(self.model, source.ids, target.ids, target.lengths)
        score = tf.where(source.empty & target.empty, 0.0, score)
        return {"score": score, "tokens": target.lengths, "truncated": either_truncated(source, target)}

    def _texts(self, ids: tf.Tensor, source: Ids, text: tf.Tensor) -> tf.Tensor:
        if self.decoding.unknown != "copy" or self.target_tokenizer.byte_fallback:
            return self.target_tokenizer.detokenize(ids)
        tokenizers = TokenizerPair(self.source_tokenizer, self.target_tokenizer)
        return copy_unknown(self.model, tokenizers, text_read(text, self.longest_source), source, ids)

    def _read(self, text: tf.Tensor) -> Ids:
        return text_to_ids(text, self.source_tokenizer, self.longest_source)

    def _read_prefix(self, prefix: tf.Tensor | None) -> Ids | None:
        """The ids that each translation begins with; EOS, the last of them, is not part of it."""
        return None if prefix is None else text_to_ids(prefix, self.target_tokenizer, self.longest_target - 1)

    @property
    def longest_source(self) -> int:
        """Tokens of a source with EOS; longer ones are truncated."""
        return self._within_positions(self.decoding.max_source_length)

    @property
    def longest_target(self) -> int:
        """Tokens of a translation with EOS."""
        return self._within_positions(self.decoding.max_source_length + self.decoding.max_extra_length)

    def _within_positions(self, length: int) -> int:
        return min(length, self.model.config.max_positions) if self.model.config.positions == "learned" else length

    def _search(self, source: Ids, text: Any = None, nbest: int | None = None, prefix: Any = None) -> Hypotheses:
        return self._search_checked(source, text, nbest, prefix).found

    def _search_checked(self, source: Ids, text: Any, nbest: int | None = None, prefix: Ids | None = None) -> Checked:
        config, target = self.decoding, self.target_tokenizer
        rows = search_rows(source, prefix, config.max_extra_length, self.longest_target)
        options = search_options(config, self.model.config, nbest, forbidden_unk(config, target))
        if config.sampling:
            sampling = SamplingOptions(config.temperature, config.top_k, config.top_p)
            return unchecked(search_ids(self.model, with_seeds(rows, text, config.seed), options, sampling))
        if not config.failure_detection:
            return unchecked(search_ids(self.model, rows, options, shortlist=self.shortlist))
        return self._checked_search(rows, options)

    def _rows(self, name: str, rows: Callable[[dict[str, tf.Tensor]], list], **columns: Texts) -> list:
        """Call a graph method on texts of any number, in batches sorted by length."""
        function = self._function(name, len(columns))
        return in_batches(lambda *batch: rows(function(*map(tf.constant, batch))), *to_columns(columns))

    def _traced_function(self, name: str, inputs: int) -> Callable:
        """A graph method as a TensorFlow function that is traced once, whatever the shapes."""
        return tf.function(getattr(self, name), input_signature=[TEXT] * inputs, autograph=False)
