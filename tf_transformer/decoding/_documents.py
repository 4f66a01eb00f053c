"""Translation of whole texts in the graph: split into sentences, translated together, joined as they were; warnings."""

from collections.abc import Callable, Mapping

import tensorflow as tf

from tf_transformer.text import Segmenter, Segments, Tokenizer, join_segments, normalize_text, split_long_sentences

SPLIT, TRUNCATED, RETRIED = "split", "truncated", "retried"
REPETITION, LENGTH, COVERAGE = "repetition", "length", "coverage"

WARNINGS = {
    SPLIT: "a sentence was longer than the model's limit and was translated in parts",
    TRUNCATED: "a part of a sentence could not be made short enough, and its end was truncated",
    RETRIED: "a translation failed a check, and was replaced by that of a second search with constraints",
    REPETITION: "a translation repeats words that the source does not repeat",
    LENGTH: "a translation is shorter or longer than those of the training data, or was truncated",
    COVERAGE: "a part of the source seems not to be translated",
}
"""The codes of warnings and what they mean. The last three name what is still wrong with the translation."""

CHECKS = {REPETITION: 4, LENGTH: 2, COVERAGE: 1}
"""The bits of the failed checks. Of two translations of a sentence, the one with the smaller sum is better."""

SENTENCES = 4096
"""Sentences whose ids and hypotheses are held at once."""

_EAST_ASIAN = r"[\p{Han}\p{Hiragana}\p{Katakana}\x{3000}-\x{303F}\x{FF00}-\x{FFEF}…]"


def translate_texts(
    translate: Callable[..., dict[str, tf.Tensor]],
    segmenter: Segmenter,
    tokenizer: Tokenizer,
    limit: int,
    text: tf.Tensor,
    prefix: tf.Tensor | None = None,
    target: tf.Tensor | None = None,
    keep_single: bool = False,
) -> dict[str, tf.Tensor]:
    """Translate texts sentence by sentence, all sentences of all texts together.

    Args:
        translate: from `text` [M], sentences, and `prefix` [M] and `target` [M] if there are any, to "translation" [M]
            and "truncated" [M], and optionally "failed" [M] and "retried" [M]: see `Checked`.
        tokenizer, limit: of the source, and tokens that a sentence may have.
        text: [N] string.
        prefix: [N] string, what the first sentence of each translation begins with.
        target: [N] string, the target language of each text.
        keep_single: whether a text of one sentence is translated with the space and the bullet around it.

    Returns:
        "translation" [N], "sentences" [N] int32, "truncated" [N] bool, "warnings" [N]: codes with commas between them.
    """
    text = tf.ensure_shape(text, [None])
    segments = segmenter.segment(text)
    count = count_sentences(segments)
    if keep_single:
        segments = _with_single_rows(segments, text)
    segments, split = split_long_sentences(segments, tokenizer, limit)
    sentences = segments.sentences
    columns = {"text": sentences.flat_values}
    if prefix is not None:
        first = sentences.row_starts()[:, None]
        columns["prefix"] = tf.scatter_nd(first, prefix, tf.shape(sentences.flat_values, tf.int64))
    if target is not None:
        columns["target"] = tf.gather(target, sentences.value_rowids())
    found = in_groups(translate, columns)

    def anywhere(flags: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(sentences.with_flat_values(flags), axis=1)

    truncated = anywhere(found["truncated"])
    flags = {SPLIT: split, TRUNCATED: truncated, RETRIED: anywhere(found["retried"])}
    flags |= {code: anywhere(flag) for code, flag in flags_of(found["failed"]).items()}
    return {
        "translation": join_translations(segments, found["translation"]),
        "sentences": count,
        "truncated": truncated,
        "warnings": warning_codes(flags),
    }


def count_sentences(segments: Segments) -> tf.Tensor:
    """Sentences of each text that are not empty: (N,) int32."""
    counts = segments.sentences.with_flat_values(tf.cast(segments.sentences.flat_values != "", tf.int32))
    return tf.reduce_sum(counts, axis=1)


def padded_segments(segmenter: Segmenter, text: tf.Tensor) -> dict[str, tf.Tensor]:
    """The sentences of texts [N] string, and what stands before, between and behind them, padded with "".

    Returns:
        "segments" [N, S] string and "separators" [N, S + 1] string: separator 0, segment 0, separator 1, … joined are
        the text, with U+FFFD in place of bytes that are not UTF-8.
    """
    sentences, separators = segmenter.segment(tf.ensure_shape(text, [None]))
    return {"segments": sentences.to_tensor(""), "separators": separators.to_tensor("")}


def _with_single_rows(segments: Segments, text: tf.Tensor) -> Segments:
    """Segments in which a row of one sentence is the text itself."""
    single = segments.sentences.row_lengths() == 1
    # Only short rows are repeated: of a row with many sentences each would be a copy.
    whole = tf.gather(tf.where(single, tf.strings.strip(normalize_text(text)), ""), segments.sentences.value_rowids())
    keep = tf.gather(single, segments.sentences.value_rowids())
    sentences = tf.where(keep, whole, segments.sentences.flat_values)
    around = tf.where(tf.gather(single, segments.separators.value_rowids()), "", segments.separators.flat_values)
    return Segments(segments.sentences.with_flat_values(sentences), segments.separators.with_flat_values(around))


def join_translations(segments: Segments, translations: tf.Tensor) -> tf.Tensor:
    """The texts [N] string of translated sentences, given in the order of the segments' flat values.

    Line breaks and other space stay. Sentences of Chinese or Japanese have no space between them, all others have.
    """
    sentences, separators = segments
    rows = sentences.value_rowids()
    inner = tf.cast(tf.where(rows[1:] == rows[:-1])[:, 0], tf.int64)
    places = inner + tf.gather(rows, inner) + 1
    left, right = tf.gather(translations, inner), tf.gather(translations, inner + 1)
    ends = tf.strings.regex_full_match(left, rf"(?s).*{_EAST_ASIAN}")
    begins = tf.strings.regex_full_match(right, rf"(?s){_EAST_ASIAN}.*")
    between = tf.gather(separators.flat_values, places)
    joined = tf.where((between == "") & (left != "") & (right != "") & ~ends, " ", between)
    joined = tf.where((between == " ") & ends & begins, "", joined)
    around = tf.tensor_scatter_nd_update(separators.flat_values, places[:, None], joined)
    return join_segments(Segments(sentences.with_flat_values(translations), separators.with_flat_values(around)))


_KINDS = {"translation": tf.string, "truncated": tf.bool, "failed": tf.int32, "retried": tf.bool}


def in_groups(translate: Callable[..., dict[str, tf.Tensor]], columns: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Call `translate` on SENTENCES rows of the columns at a time.

    Args:
        translate: from some rows of the columns to tensors [M] by the names of `_KINDS`; all but the first may be
            missing, and are zeros in the result.
        columns: its arguments by name; "text" is one of them.
    """
    count = tf.size(columns["text"])
    groups = tf.maximum((count + SENTENCES - 1) // SENTENCES, 1)
    arrays = [tf.TensorArray(kind, size=groups, infer_shape=False, element_shape=[None]) for kind in _KINDS.values()]

    def group(number: tf.Tensor, arrays: list[tf.TensorArray]) -> tuple:
        rows = slice(number * SENTENCES, (number + 1) * SENTENCES)
        found = translate(**{name: column[rows] for name, column in columns.items()})
        size = tf.shape(found["translation"])
        values = [found[name] if name in found else tf.zeros(size, kind) for name, kind in _KINDS.items()]
        return number + 1, [array.write(number, value) for array, value in zip(arrays, values)]

    _, arrays = tf.while_loop(lambda number, _: number < groups, group, [0, arrays], parallel_iterations=1)
    return {name: array.concat() for name, array in zip(_KINDS, arrays)}


def sentence_warnings(found: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """The codes of sentences: from "truncated" [N] bool, "retried" [N] bool and "failed" [N] int32 to [N] string."""
    flags = {TRUNCATED: found["truncated"], RETRIED: found["retried"]}
    return warning_codes(flags | flags_of(found["failed"]))


def flags_of(failed: tf.Tensor) -> dict[str, tf.Tensor]:
    """The checks that failed, a sum of `CHECKS`, by their codes."""
    return {code: tf.bitwise.bitwise_and(failed, bit) > 0 for code, bit in CHECKS.items()}


def warning_codes(flags: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """The codes whose flags (N,) bool are set in each row, with commas between them: [N] string."""
    names = [tf.where(flag, f"{name},", "") for name, flag in flags.items()]
    return tf.strings.regex_replace(tf.strings.join(names), ",$", "")
