"""From strings to the ids a model reads: cleaned of nothing, cut where too long, and never failing."""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.config import ModelConfig
from tf_transformer.text.tokenizer import TokenizerPair

BYTES_PER_TOKEN = 64
"""A string is cut to so many bytes a token before it is tokenized, so that megabytes cost nothing. SentencePiece's
pieces have at most 16 characters: text this long is over the limit in tokens too."""


class Ids(NamedTuple):
    """Tokenized text.

    ids: (N, S) int32, each row ending in END (if the tokenizer adds it), padding behind it.
    lengths: (N,) int32, END counted.
    truncated: (N,) bool, whether something was cut off.
    empty: (N,) bool, whether there is nothing but END.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    truncated: tf.Tensor
    empty: tf.Tensor


def text_to_ids(text, tokenizer, limit: int) -> Ids:
    """At most `limit` ids a row, the last of them END (if the tokenizer adds it): text [N] string -> (N, S), S > 0."""
    text = tf.strings.strip(tf.ensure_shape(text, [None]))
    most = limit * BYTES_PER_TOKEN
    ragged = tokenizer.tokenize(tf.strings.substr(text, 0, most))
    lengths = tf.cast(ragged.row_lengths(), tf.int32)
    over = lengths > limit
    ids = ragged[:, :limit].to_tensor(default_value=tokenizer.pad_id)
    if tokenizer.adds_end:
        last = tf.range(tf.shape(ids)[1]) == limit - 1
        ids = tf.where(over[:, None] & last, tokenizer.end_id, ids)
    else:
        nothing = tf.cast(tf.shape(ids)[1] == 0, tf.int32)  # attention needs a position to look at
        ids = tf.pad(ids, [[0, 0], [0, nothing]], constant_values=tokenizer.pad_id)
    cut = over | (tf.strings.length(text) > most)
    return Ids(ids, tf.minimum(lengths, limit), cut, lengths <= int(tokenizer.adds_end))


def check_tokenizers(config: ModelConfig, tokenizers: TokenizerPair) -> None:
    """Refuses tokenizers whose ids are not the model's."""
    source = {"vocab_size": config.vocab_size, "pad_id": config.pad_id, "end_id": config.end_id}
    target = source | {"vocab_size": config.decoder_vocab_size, "start_id": config.start_id, "adds_end": True}
    for side, expected in (("source", source), ("target", target)):
        for name, value in expected.items():
            found = getattr(getattr(tokenizers, side), name)
            if found != value:
                raise ValueError(
                    f"The {side} tokenizer's {name} must be the model's, {value}, not {found}; use the tokenizers "
                    "that the model was trained with."
                )
