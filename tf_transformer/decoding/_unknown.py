"""Unknown pieces: those of a translation are replaced by the source text that they are aligned with."""

import tensorflow as tf

from tf_transformer.config import DecodingConfig
from tf_transformer.decoding._batching import map_batches
from tf_transformer.decoding._search import Ids
from tf_transformer.model import Transformer
from tf_transformer.text import Tokenizer, TokenizerPair


def forbidden_unk(decoding: DecodingConfig, target: Tokenizer) -> list[int]:
    """UNK, unless it may be produced: to be kept, or to be replaced if the vocabulary has no byte fallback."""
    allowed = decoding.unknown == "keep" or (decoding.unknown == "copy" and not target.byte_fallback)
    return [] if allowed else [target.unk_id]


def copy_unknown(
    model: Transformer, tokenizers: TokenizerPair, text: tf.Tensor, source: Ids, ids: tf.Tensor
) -> tf.Tensor:
    """The texts of outputs, with the aligned source text in place of UNK: [N] string.

    A piece is aligned with the source piece that the decoder attended to most, on average over layers and heads, when
    it wrote the piece. If there are unknown pieces in the source, only these are considered.

    Args:
        text: [N] string, as it was tokenized.
        source: its ids.
        ids: (N, T) int32, the outputs.
    """
    unk_id, plain = tokenizers.target.unk_id, tokenizers.target.detokenize(ids)
    has_unk = tf.reduce_any(ids == unk_id, axis=1)

    def replaced() -> tf.Tensor:
        places = tf.where(has_unk)
        some = [tf.gather(column, places[:, 0]) for column in (text, source.ids, source.lengths, ids)]
        return tf.tensor_scatter_nd_update(plain, places, _with_source_text(model, tokenizers, *some))

    return tf.cond(tf.reduce_any(has_unk), replaced, lambda: plain)


def _with_source_text(
    model: Transformer,
    tokenizers: TokenizerPair,
    text: tf.Tensor,
    source: tf.Tensor,
    lengths: tf.Tensor,
    target: tf.Tensor,
) -> tf.Tensor:
    """`copy_unknown` for rows that have UNK."""
    unk_id, pad_id = tokenizers.target.unk_id, tokenizers.target.pad_id
    written = lengths - int(tokenizers.source.add_eos)
    usable = tf.range(tf.shape(source)[1]) < written[:, None]
    unknown = usable & (source == tokenizers.source.unk_id)
    usable = tf.where(tf.reduce_any(unknown, axis=1, keepdims=True), unknown, usable)
    target_lengths = tf.reduce_sum(tf.cast(target != pad_id, tf.int32), axis=1)
    rows = {"source": source, "usable": usable, "target": target, "lengths": tf.maximum(lengths, target_lengths)}
    width = tf.shape(target)[1]

    def aligned(some: dict[str, tf.Tensor], longest: tf.Tensor) -> list[tf.Tensor]:
        found = _aligned(model, *(some[name][:, :longest] for name in ("source", "usable", "target")))
        return [tf.pad(found, [[0, 0], [0, width - tf.shape(found)[1]]])]

    places = map_batches(aligned, rows, [tf.TensorSpec([None, None], tf.int32)])[0]
    surfaces = tf.gather(_surfaces(tokenizers.source, text, tf.shape(source)[1]), places, batch_dims=1)
    pieces = tf.where(target == unk_id, surfaces, tokenizers.target.piece_texts(target))
    joined = tf.strings.regex_replace(tf.strings.reduce_join(pieces, axis=1), " +", " ")
    return tf.strings.strip(joined)


def _aligned(model: Transformer, source: tf.Tensor, usable: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """The usable source position that each target position is aligned with: (B, T) int32."""
    start = tf.fill([tf.shape(target)[0], 1], model.config.bos_id)
    inputs = tf.concat([start, target], axis=1)[:, : tf.shape(target)[1]]
    _, weights = model({"source": source, "target": inputs}, training=False, return_attention_scores=True)
    each = [tf.reduce_mean(tf.cast(layer, tf.float32), axis=1) for layer in weights["cross"]]
    return tf.argmax(tf.where(usable[:, None], tf.add_n(each), -1.0), axis=2, output_type=tf.int32)


def _surfaces(tokenizer: Tokenizer, text: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """The part of the text that each source piece stands for: [N] string -> (N, width) string."""
    starts, ends = (spans.to_tensor(shape=[None, None])[:, :width] for spans in tokenizer.piece_spans(text))
    missing = [[0, 0], [0, width - tf.shape(starts)[1]]]
    starts, ends = tf.pad(starts, missing), tf.pad(ends, missing)
    return tf.strings.substr(tf.broadcast_to(text[:, None], tf.shape(starts)), starts, ends - starts)
