"""Splitting of sentences that are longer than a model reads: at clauses, then at spaces, then anywhere."""

import tensorflow as tf

from tf_transformer.text._segmentation import Segments, join_segments, segments_of
from tf_transformer.text._sentence_rules import BREAK, EDGE, SPACE
from tf_transformer.text._tokenizer import Tokenizer

BYTES_PER_TOKEN = 64
"""A string is truncated to so many bytes per token before it is tokenized, so that megabytes cost little.
SentencePiece's pieces have at most 16 characters: text this long is over the limit in tokens too."""

_CLAUSES = rf"([,;:—–、，；：،؛।…]['\"”’»)\]]*(?:{SPACE}+|$)|[、，；：])"
_WORDS = rf"({SPACE}+)"


def count_tokens(text: tf.Tensor, tokenizer: Tokenizer, limit: int) -> tf.Tensor:
    """Tokens of each text [N] string, EOS counted: [N] int32. What is above `limit` need not be exact.

    Long text of few tokens, as of unknown characters, counts as one token per BYTES_PER_TOKEN bytes.
    """
    ids = tokenizer.tokenize(tf.strings.substr(text, 0, limit * BYTES_PER_TOKEN))
    least = (tf.strings.length(text) - 1) // BYTES_PER_TOKEN + 1 + int(tokenizer.add_eos)
    return tf.maximum(tf.cast(ids.row_lengths(), tf.int32), least)


def split_long_sentences(segments: Segments, tokenizer: Tokenizer, limit: int) -> tuple[Segments, tf.Tensor]:
    """Segments whose sentences have at most `limit` tokens, and which rows had longer ones: [N] bool.

    A long sentence is split at punctuation between clauses; a clause that is still too long at spaces; and a word
    that is still too long anywhere. Parts are as long as the limit allows. Space at these places becomes a separator.
    """
    flat = segments.sentences.flat_values
    long = count_tokens(flat, tokenizer, limit) > limit

    def split() -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        places = tf.where(long)
        marked = tf.tensor_scatter_nd_update(flat, places, _marked(tf.gather_nd(flat, places), tokenizer, limit))
        edged = segments.sentences.with_flat_values(tf.strings.join([EDGE, marked, EDGE]))
        return tuple(segments_of(join_segments(Segments(edged, segments.separators))))

    found = tf.cond(tf.reduce_any(long), split, lambda: tuple(segments))
    rows = tf.math.unsorted_segment_max(
        tf.cast(long, tf.int32), segments.sentences.value_rowids(), segments.sentences.nrows()
    )
    return Segments(*found), rows > 0


def _marked(sentences: tf.Tensor, tokenizer: Tokenizer, limit: int) -> tf.Tensor:
    """Sentences [N] string with EDGE around the space, if there is any, where they are to be split."""
    eos = int(tokenizer.add_eos)
    most = max(1, limit - eos)
    letters = rf"(?s)(.{{1,{min(100, max(1, most // 8))}}})"
    parts, owners = sentences, tf.range(tf.size(sentences))
    # The last is for characters of many tokens, as of byte fallback after NFKC.
    for pattern in (_CLAUSES, _WORDS, letters, r"(?s)(.)"):
        long = count_tokens(parts, tokenizer, limit) - eos > most
        broken = tf.strings.regex_replace(parts, pattern, rf"\1{BREAK}")
        broken = tf.strings.regex_replace(broken, rf"{BREAK}\z", "")
        pieces = tf.strings.split(tf.where(long, broken, parts), BREAK)
        owners, parts = tf.gather(owners, pieces.value_rowids()), pieces.flat_values
    first = _chunk_starts(count_tokens(parts, tokenizer, limit) - eos, owners, most)
    begins = tf.scatter_nd(first[:, None], tf.fill(tf.shape(first), BREAK), tf.shape(parts))
    joined = tf.strings.unsorted_segment_join(tf.strings.join([begins, parts]), owners, tf.size(sentences))
    return tf.strings.regex_replace(joined, rf"({SPACE}*){BREAK}", rf"{EDGE}\1{EDGE}")


def _chunk_starts(counts: tf.Tensor, owners: tf.Tensor, most: int) -> tf.Tensor:
    """The parts that begin a chunk, other than the first of each owner.

    A chunk has as many parts of one owner as have at most `most` tokens together, and at least one.

    Args:
        counts: [P] int32, tokens of each part.
        owners: [P] int32, not falling.
    """
    places = tf.range(tf.size(counts))
    ends = tf.searchsorted(owners, owners, side="right")
    total = tf.cumsum(counts)
    follow = tf.searchsorted(total, total - counts + most, side="right")
    follow = tf.minimum(tf.maximum(follow, places + 1), ends)

    def advance(starts: tf.Tensor) -> tf.Tensor:
        """The next chunk of each owner that has one."""
        following = tf.gather(follow, starts)
        return tf.boolean_mask(following, following < tf.gather(ends, starts))

    def unfinished(_: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
        return tf.size(starts) > 0

    starts = advance(tf.boolean_mask(places, tf.concat([[True], owners[1:] != owners[:-1]], 0)[: tf.size(owners)]))
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    loop = tf.while_loop(unfinished, lambda n, at: (n + 1, advance(at)), [0, starts], shapes)
    # They are counted first, because arrays that grow need a server of 2.13 or later.
    array = tf.TensorArray(tf.int32, size=loop[0] + 1, infer_shape=False, element_shape=[None])

    def write(number: tf.Tensor, at: tf.Tensor, array: tf.TensorArray) -> tuple:
        return number + 1, advance(at), array.write(number, at)

    shapes.append(tf.TensorShape([]))
    number, last, array = tf.while_loop(lambda _, at, __: tf.size(at) > 0, write, [0, starts, array], shapes)
    return array.write(number, last).concat()
