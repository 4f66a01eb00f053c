"""Words of a text with character offsets, in the TensorFlow graph and from Python."""

from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf

from tf_transformer.text._segmentation import normalize_text, segments_of
from tf_transformer.text._sentence_rules import EDGE

# Scripts that put no space between words: one character with its marks is one word.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_LETTER = rf"(?:[^\P{{L}}{_UNSPACED}]|[^\P{{N}}{_UNSPACED}]|\p{{M}})"
_NUMBER = r"\p{Nd}+(?:[.,:]\p{Nd}+)+"
_PART = rf"(?:{_NUMBER}|{_LETTER})+"
_JOINERS = r"['’\-‐‑·\x{AD}\x{200C}\x{200D}]"
_EMOJI = r"[\p{So}\x{1F000}-\x{1FAFF}][\p{M}\x{1F3FB}-\x{1F3FF}\x{E0020}-\x{E007F}]*"
_INVISIBLE = r"\s\x{85}\p{Z}\p{Cc}\p{Cf}"
_WORD = "|".join(
    (
        rf"[{_UNSPACED}][\p{{M}}ーｰ]*",
        rf"{_PART}(?:{_JOINERS}{_PART})*",
        r"[\x{1F1E6}-\x{1F1FF}]{2}",
        rf"{_EMOJI}(?:\x{{200D}}{_EMOJI})*",
        r"\.{2,}|[!?]{2,}",
        rf"[^{_INVISIBLE}]\p{{M}}*",
    )
)


class Words(NamedTuple):
    """Words of texts. All are RaggedTensors [N, (words)].

    texts: string.
    starts, ends: int32 offsets in characters (code points) of the text.
    byte_starts, byte_ends: int32 offsets in bytes of the normalized text.
    """

    texts: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    byte_starts: tf.RaggedTensor
    byte_ends: tf.RaggedTensor


class Word(NamedTuple):
    """A word: its text, and where it starts and ends, in characters (code points) of the whole text."""

    text: str
    start: int
    end: int


def words_of(text: tf.Tensor) -> Words:
    """The words of texts [N] string.

    A word is a run of letters, digits and their marks, with single apostrophes and hyphens inside, and periods, commas
    and colons between digits. In scripts without space between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) a
    word is one character with its marks. An emoji with its modifiers is one word; so is any other character that is
    neither white space nor invisible (control and format characters), and a run of periods or of "!" and "?".

    Words are in order, do not overlap, and cover all but white space and invisible characters. The text is normalized
    first, which changes no offset: bytes that are not UTF-8 and the noncharacters U+FDD0 to U+FDD3 are replaced.
    """
    marked = tf.strings.regex_replace(normalize_text(text), f"({_WORD})", rf"{EDGE}\1{EDGE}")
    words, between = segments_of(marked)
    starts, ends = _offsets(words, between, "UTF8_CHAR")
    return Words(words, starts, ends, *_offsets(words, between, "BYTE"))


def _offsets(words: tf.RaggedTensor, between: tf.RaggedTensor, unit: str) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Starts and ends of words that have one more string between and around them than there are words."""
    sizes = tf.strings.length(words.flat_values, unit=unit)
    row, place = words.value_rowids(), tf.range(tf.size(words.flat_values, tf.int64))
    # The string before word i of row r has the number i + r among all strings between words.
    before = tf.gather(tf.strings.length(between.flat_values, unit=unit), place + row)
    ends = tf.cumsum(before + sizes)
    behind = tf.concat([[0], ends], axis=0)
    ends -= tf.gather(behind, tf.gather(words.row_starts(), row))
    return words.with_flat_values(ends - sizes), words.with_flat_values(ends)


def split_words(texts: Iterable[str | bytes]) -> list[list[Word]]:
    """The words of each text: see `words_of`.

    Example:
        split_words(["Don't go."])  # [[Word("Don't", 0, 5), Word("go", 6, 8), Word(".", 8, 9)]]
    """
    encoded = [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts]
    found = words_of(tf.constant(encoded, tf.string, [len(encoded)]))
    columns = found.texts.to_list(), found.starts.to_list(), found.ends.to_list()
    return [[Word(text.decode("utf-8"), *place) for text, *place in zip(*row)] for row in zip(*columns)]
