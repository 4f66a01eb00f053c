"""Word alignment in the graph: links between words from cross-attention, and a confidence per target word.

Source and translation go through the model once more, by teacher forcing. The attention weights of some heads, from
pieces to pieces, become weights between words, and the largest of them in both directions are the links.
"""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.config import ModelConfig
from tf_transformer.decoding._batching import Batch, map_batches
from tf_transformer.decoding._options import Hypotheses
from tf_transformer.decoding._search import Ids, log_probs_of, text_to_ids
from tf_transformer.layers import padding_mask
from tf_transformer.model import Transformer
from tf_transformer.text import BYTES_PER_TOKEN, Tokenizer, TokenizerPair, Words, words_of

WORDS_PER_TOKEN = 4
"""A text has at most so many words per token that the model reads: more only in long runs of unknown characters."""


class Side(NamedTuple):
    """One side of pairs of texts, padded.

    text: [N] string.
    ids: (N, S) int32.
    lengths: (N,) int32, EOS counted.
    starts, ends: (N, S) int32, of the pieces in bytes; -1 for EOS and padding.
    words: `Words` of dense tensors (N, W), W > 0; padding is "" and -1.
    """

    text: tf.Tensor
    ids: tf.Tensor
    lengths: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    words: Words


def side_of_text(text: tf.Tensor, tokenizer: Tokenizer, limit: int) -> tuple[Side, Ids]:
    """The words and pieces of texts [N] string. Of truncated texts, the words that were read completely."""
    found = text_to_ids(text, tokenizer, limit)
    most = limit * BYTES_PER_TOKEN
    stripped = tf.strings.strip(text)
    part = tf.strings.substr(stripped, 0, most)
    read = tf.sequence_mask(found.lengths - int(tokenizer.add_eos), tf.shape(found.ids)[1])
    starts, ends = (_dense(spans[:, :limit], read) for spans in tokenizer.piece_spans(part))
    # Several pieces may come from one character, as the letters of a ligature do; all but one have empty spans.
    ends = tf.where(read, tf.maximum(ends, starts + 1), -1)
    words = Words(*(column[:, : limit * WORDS_PER_TOKEN] for column in words_of(part)))
    size = tf.strings.length(tf.strings.unicode_transcode(part, "UTF-8", "UTF-8", errors="replace"))
    shortened = tf.strings.length(stripped) > most
    last = tf.where(shortened, size - 1, size)
    over = found.lengths == limit
    last = tf.where(over & found.truncated, tf.reduce_max(tf.pad(ends, [[0, 0], [0, 1]]), axis=1), last)
    kept = words.byte_ends.with_flat_values(
        words.byte_ends.flat_values <= tf.gather(last, words.byte_ends.value_rowids())
    )
    words = Words(*(tf.ragged.boolean_mask(column, kept) for column in words))  # type: ignore[arg-type]
    # White space that `strip` takes away is one byte per character.
    lead = tf.strings.length(text) - tf.strings.length(tf.strings.regex_replace(text, r"\A[ \t\n\v\f\r]+", ""))
    return Side(text, found.ids, found.lengths, starts, ends, _dense_words(words, lead)), found


def side_of_ids(
    ids: tf.Tensor, lengths: tf.Tensor, tokenizer: Tokenizer, text: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> Side:
    """The words and pieces of translations.

    Args:
        ids: (N, T) int32, of which the first `lengths` (N,) count.
        text: [N] string, what they are written as.
        starts, ends: (N, T) int32, the place of each piece in bytes of the text.
    """
    written = (tf.range(tf.shape(ids)[1]) < lengths[:, None]) & (ids != tokenizer.eos_id)
    starts, ends = (tf.where(written, places, -1) for places in (starts, ends))
    return Side(text, ids, lengths, starts, ends, _dense_words(words_of(text)))


def _dense(spans: tf.RaggedTensor, read: tf.Tensor) -> tf.Tensor:
    dense = spans.to_tensor(-1, shape=[None, None])
    dense = tf.pad(dense, [[0, 0], [0, tf.shape(read)[1] - tf.shape(dense)[1]]], constant_values=-1)
    return tf.where(read, dense, -1)


def _dense_words(words: Words, lead: tf.Tensor | None = None) -> Words:
    """Dense tensors with at least one column; `lead` (N,) is added to the offsets in characters."""
    if lead is not None:
        more = tf.gather(lead, words.texts.value_rowids())
        words = words._replace(
            starts=words.starts.with_flat_values(words.starts.flat_values + more),
            ends=words.ends.with_flat_values(words.ends.flat_values + more),
        )
    texts = words.texts.to_tensor("")
    none = tf.cast(tf.shape(texts)[1] == 0, tf.int32)
    columns = [texts, *(column.to_tensor(-1) for column in words[1:])]
    paddings = "", -1, -1, -1, -1
    return Words(
        *(tf.pad(column, [[0, 0], [0, none]], constant_values=value) for column, value in zip(columns, paddings))
    )


Heads = tuple[tuple[int, int], ...]
"""Attention heads, as layer and head, both counted from 0."""


def alignment_heads(text: str, config: ModelConfig) -> Heads:
    """The heads that `decoding.alignment_heads` names, such as "3,4.2"; for "", those of the upper half of layers."""
    layers, heads = config.decoder_layers, config.num_heads
    named = [tuple(map(int, part.split("."))) for part in text.split(",") if part.strip()]
    named = named or [(layer + 1,) for layer in range(layers // 2, layers)]
    for layer, *head in named:
        if not 1 <= layer <= layers or any(not 1 <= number <= heads for number in head):
            raise ValueError(
                f"Expected decoding.alignment_heads with layers from 1 to {layers} and heads from 1 to {heads}, as the "
                f"model has them. Received: {text!r}. `tf-transformer attention --choose-alignment` chooses them."
            )
    chosen = [(layer - 1, number - 1) for layer, *head in named for number in head or range(1, heads + 1)]
    return tuple(dict.fromkeys(chosen))


def align_words(model: Transformer, source: Side, target: Side, heads: Heads) -> dict[str, tf.Tensor]:
    """Links between the words of both sides, and confidences, some rows at a time: see `Translator.alignment`."""
    sides = {"source": source, "target": target}
    rows = {f"{side} {name}": value for side, words in sides.items() for name, value in _spans(words).items()}
    rows["lengths"] = tf.maximum(source.lengths, target.lengths)
    # Each word has at most one link of its own choice.
    most = tf.shape(source.words.texts)[1] + tf.shape(target.words.texts)[1]

    def of_batch(some: Batch, longest: tf.Tensor) -> list[tf.Tensor]:
        cross, log_probs = force(model, some["source ids"][:, :longest], some["target ids"][:, :longest])
        weights = tf.add_n([cross[layer][:, head] for layer, head in heads]) / len(heads)
        spans = [{name: some[f"{side} {name}"] for name in _spans(words)} for side, words in sides.items()]
        pieces = [overlap(each)[:, :longest] for each in spans]
        links = link_words(word_weights(weights, *pieces))
        return [word_confidences(log_probs, pieces[1]), _padded_links(links, most)]

    specs = [tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None, None, 2], tf.int32)]
    confidences, links = map_batches(of_batch, rows, specs)
    count = tf.reduce_max(tf.pad(tf.reduce_sum(tf.cast(links[:, :, 0] >= 0, tf.int32), axis=1), [[0, 1]]))
    words = word_outputs("source", source) | word_outputs("target", target)
    width = tf.shape(words["target_words"])[1]
    return {"translation": target.text} | words | {"confidences": confidences[:, :width], "links": links[:, :count]}


def word_outputs(name: str, side: Side) -> dict[str, tf.Tensor]:
    """Words and offsets of one side, as wide as the row with the most words."""
    words = side.words
    count = tf.reduce_max(tf.pad(tf.reduce_sum(tf.cast(words.starts >= 0, tf.int32), axis=1), [[0, 1]]))
    columns = {"words": words.texts, "starts": words.starts, "ends": words.ends}
    return {f"{name}_{key}": column[:, :count] for key, column in columns.items()}


def _spans(side: Side) -> Batch:
    words = side.words
    names = "ids", "starts", "ends", "word_starts", "word_ends"
    return dict(zip(names, (side.ids, side.starts, side.ends, words.byte_starts, words.byte_ends)))


def overlap(spans: Batch) -> tf.Tensor:
    """1 where a piece and a word have bytes in common: (B, S, W) float32."""
    starts, ends = spans["starts"][:, :, None], spans["ends"][:, :, None]
    return tf.cast((starts < spans["word_ends"][:, None]) & (ends > spans["word_starts"][:, None]), tf.float32)


def force(
    model: Transformer,
    source: tf.Tensor,
    target: tf.Tensor,
    with_log_probs: bool = True,
    memory: tf.Tensor | None = None,
) -> tuple[list[tf.Tensor], tf.Tensor | None]:
    """Teacher forcing: the cross-attention weights of each layer (B, H, T, S), and log-probabilities (B, T).

    Row t of the weights is the step that wrote id t of the target. `memory` is the encoder's output, if it was computed
    already.
    """
    start = tf.fill([tf.shape(target)[0], 1], model.config.bos_id)
    inputs = tf.concat([start, target[:, :-1]], axis=1)[:, : tf.shape(target)[1]]
    mask = padding_mask(source, model.config.pad_id)
    memory = model.encode(source) if memory is None else memory
    hidden, layers = model.decode_hidden(inputs, memory, mask, return_attention_scores=True)
    weights = [tf.cast(layer["cross"], tf.float32) for layer in layers]
    return weights, log_probs_of(model, tf.cast(hidden, tf.float32), target) if with_log_probs else None


def word_attention(model: Transformer, source: Side, target: Side) -> tf.Tensor:
    """Attention weights between words of all layers and heads: (N, layers, H, target words, source words)."""
    cross, _ = force(model, source.ids, target.ids, with_log_probs=False)
    return word_weights(tf.stack(cross, axis=1), overlap(_spans(source)), overlap(_spans(target)))


def word_weights(weights: tf.Tensor, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Attention weights between words (…, target words, source words) of weights between pieces (…, T, S).

    The weight of a source word is the sum over its pieces; that of a target word the average over its pieces. A piece
    of several words is divided evenly.

    Args:
        weights: (B, T, S), or with further axes behind the first.
        source, target: 1 where piece and word overlap: (B, S, source words), (B, T, target words).
    """
    for _ in range(weights.shape.rank - 3):
        source, target = source[:, None], target[:, None]
    shared = tf.math.divide_no_nan(source, tf.reduce_sum(source, axis=-1, keepdims=True))
    averaged = tf.math.divide_no_nan(target, tf.reduce_sum(target, axis=-2, keepdims=True))
    return tf.matmul(averaged, tf.matmul(weights, shared), transpose_a=True)


def word_confidences(log_probs: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """The lowest probability of the pieces of each word: (B, T), (B, T, words) -> (B, words); 0 for padding."""
    least = tf.reduce_min(tf.where(target > 0, log_probs[:, :, None], 0.0), axis=1)
    return tf.where(tf.reduce_any(target > 0, axis=1), tf.exp(least), 0.0)


SOURCE_WEIGHT, TARGET_WEIGHT = 0.1, 0.5
"""Least weights of links: of a source word with its target word, and of a target word that no source word chose.

Chosen on the phrasebook: see docs/benchmarks/alignment.md.
"""


def link_words(weights: tf.Tensor) -> tf.Tensor:
    """Which words are linked, of weights (…, target words, source words): bool of the same shape.

    Each source word is linked to the target word with its largest weight; then each target word that has no link to
    the source word with its largest weight; both only if the weight is large enough.
    """
    backward = _largest(weights, axis=-2) & (weights >= SOURCE_WEIGHT)
    forward = _largest(weights, axis=-1) & (weights >= TARGET_WEIGHT)
    return backward | (forward & ~tf.reduce_any(backward, axis=-1, keepdims=True))


def _largest(weights: tf.Tensor, axis: int) -> tf.Tensor:
    """True for the first of the largest weights along an axis."""
    places = tf.range(tf.shape(weights, tf.int64)[axis])
    return tf.expand_dims(tf.argmax(weights, axis=axis), axis) == (places if axis == -1 else places[:, None])


def _padded_links(links: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Pairs (B, size, 2) int32 of source and target words, -1 as padding, of links (B, target words, source words)."""
    found = tf.cast(tf.where(tf.transpose(links, [0, 2, 1])), tf.int32)
    pairs = tf.RaggedTensor.from_value_rowids(found[:, 1:], found[:, 0], tf.shape(links)[0], validate=False)
    dense = pairs.to_tensor(-1, shape=[None, None, 2])
    return tf.pad(dense, [[0, 0], [0, size - tf.shape(dense)[1]], [0, 0]], constant_values=-1)


def cross_attention(
    model: Transformer, tokenizers: TokenizerPair, source: Ids, found: Hypotheses
) -> dict[str, tf.Tensor]:
    """The pieces of source and best hypothesis, and cross-attention weights: outputs of the signature `attention`."""
    target, lengths = found.ids[:, 0], found.lengths[:, 0]
    weights, _ = force(model, source.ids, target, with_log_probs=False)
    written = tf.range(tf.shape(target)[1]) < lengths[:, None]
    return {
        "source_tokens": _tokens(tokenizers.source, source.ids, source.lengths),
        "target_tokens": _tokens(tokenizers.target, target, lengths),
        "attention": tf.where(written[:, None, None, :, None], tf.stack(weights, axis=1), 0.0),
    }


def _tokens(tokenizer: Tokenizer, ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """The pieces (N, S) string of ids, "" for padding."""
    return tf.where(tf.range(tf.shape(ids)[1]) < lengths[:, None], tokenizer.piece_strings(ids), "")
