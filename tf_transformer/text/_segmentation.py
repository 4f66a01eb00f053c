"""Sentence segmentation by rules, in the TensorFlow graph and from Python."""

from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf

from tf_transformer.text._sentence_rules import EDGE, MARKS, rules_of


class Segments(NamedTuple):
    """Texts as sentences and the separators around them.

    sentences: RaggedTensor [N, (s)] string.
    separators: RaggedTensor [N, (s + 1)] string: what stands before the first sentence, between two, and behind the
        last: space, line breaks, bullets.
    """

    sentences: tf.RaggedTensor
    separators: tf.RaggedTensor


class Segmenter(tf.Module):
    """Rule-based sentence segmentation.

    A sentence ends at a line break, at a tab, and at sentence-final punctuation of Latin, Cyrillic, Greek, CJK, Arabic
    and Devanagari script. Periods of abbreviations, initials, ordinal numbers, decimals and addresses do not end one.
    Sentences and separators together are the normalized text: bytes that are not UTF-8 and the Unicode noncharacters
    U+FDD0 to U+FDD3 are replaced by U+FFFD; `join_segments` gives it back. Time and memory grow linearly with the text.

    Args:
        language: the code of the texts' language, for its word lists; None, or a language without a list: those of all
            languages.

    Example:
        Segmenter("en")(["Dr. Smith sleeps. He snores."])  # [["Dr. Smith sleeps.", "He snores."]]
    """

    def __init__(self, language: str | None = None) -> None:
        super().__init__(name="segmenter")
        self.language = language
        self._rules = rules_of(language)
        self._compiled = tf.function(self.segment, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)

    def __call__(self, texts: Iterable[str | bytes]) -> list[list[str]]:
        """The sentences of each text."""
        texts = [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts]
        found = self._compiled(tf.constant(texts, tf.string, [len(texts)])).sentences
        return [[sentence.decode("utf-8") for sentence in row if sentence] for row in found.to_list()]

    def segment(self, text: tf.Tensor) -> Segments:
        """Text [N] string to its sentences and separators. An empty text has one sentence, which is empty."""
        text = normalize_text(text)
        for rule in self._rules:
            text = tf.strings.regex_replace(text, rule.pattern, rule.rewrite)
        return segments_of(text)


def segments_of(marked: tf.Tensor) -> Segments:
    """The segments of texts [N] string that have an EDGE on both sides of each sentence."""
    parts = tf.strings.split(marked, EDGE)
    place = tf.range(tf.size(parts.flat_values, tf.int64)) - tf.repeat(parts.row_starts(), parts.row_lengths())
    is_sentence = parts.with_flat_values(place % 2 == 1)
    sentences = tf.ragged.boolean_mask(parts, is_sentence)
    return Segments(sentences, tf.ragged.boolean_mask(parts, tf.logical_not(is_sentence)))


def join_segments(segments: Segments) -> tf.Tensor:
    """The text [N] string of sentences and separators."""
    sentences, separators = segments
    last = tf.range(tf.size(separators.flat_values, tf.int64)) + 1 == tf.repeat(
        separators.row_limits(), separators.row_lengths()
    )
    following = tf.scatter_nd(tf.where(~last), sentences.flat_values, tf.shape(last, tf.int64))
    parts = tf.strings.join([separators.flat_values, following])
    return tf.strings.unsorted_segment_join(parts, separators.value_rowids(), separators.nrows())


def normalize_text(text: tf.Tensor) -> tf.Tensor:
    """Text [N] string with U+FFFD in place of bytes that are not UTF-8 and of the marks of the rules."""
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
    return tf.strings.regex_replace(text, f"[{MARKS}]", "\ufffd")
