"""Model functions of ids: text to ids, search over a source, and the log-probability of a target."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tf_transformer.config import DecodingConfig, ModelConfig
from tf_transformer.decoding._batching import map_batches, search_in_batches
from tf_transformer.decoding._beam_search import beam_search
from tf_transformer.decoding._decoder_step import DecoderStep
from tf_transformer.decoding._options import Hypotheses, SearchOptions
from tf_transformer.decoding._sampling import SamplingOptions, sample
from tf_transformer.decoding._shortlist import CandidateTable
from tf_transformer.layers import padding_mask
from tf_transformer.model import Transformer
from tf_transformer.text import BYTES_PER_TOKEN, TokenizerPair


class Ids(NamedTuple):
    """Tokenized text.

    ids: (N, S) int32, each row ending in EOS (if the tokenizer adds it), padding behind it.
    lengths: (N,) int32, EOS counted.
    truncated: (N,) bool, whether something was left out.
    empty: (N,) bool, whether there is nothing but EOS.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    truncated: tf.Tensor
    empty: tf.Tensor


def text_to_ids(text: tf.Tensor, tokenizer: Any, limit: int) -> Ids:
    """At most `limit` ids per row, the last of them EOS if the tokenizer adds it: text [N] string -> (N, S), S > 0."""
    text = tf.strings.strip(tf.ensure_shape(text, [None]))
    read = text_read(text, limit)
    ragged = tokenizer.tokenize(read)
    lengths = tf.cast(ragged.row_lengths(), tf.int32)
    over = lengths > limit
    ids = ragged[:, :limit].to_tensor(default_value=tokenizer.pad_id)
    if tokenizer.add_eos:
        last = tf.range(tf.shape(ids)[1]) == limit - 1
        ids = tf.where(over[:, None] & last, tokenizer.eos_id, ids)
    else:
        nothing = tf.cast(tf.shape(ids)[1] == 0, tf.int32)  # attention needs a position to look at
        ids = tf.pad(ids, [[0, 0], [0, nothing]], constant_values=tokenizer.pad_id)
    truncated = over | (tf.strings.length(text) > tf.strings.length(read))
    return Ids(ids, tf.minimum(lengths, limit), truncated, lengths <= int(tokenizer.add_eos))


def text_read(text: tf.Tensor, limit: int) -> tf.Tensor:
    """The part of texts [N] that is tokenized if `limit` tokens are read: no space around it, and not megabytes."""
    return tf.strings.substr(tf.strings.strip(text), 0, limit * BYTES_PER_TOKEN)


def search_rows(
    source: Ids, prefix: Ids | None, max_extra_length: int, longest: int, factor: float | None = None
) -> dict[str, tf.Tensor]:
    """The rows of `search_ids`: outputs of at most `longest` ids, `max_extra_length` more than the source, and `factor`
    times as many.
    """
    lengths = tf.minimum(source.lengths + max_extra_length, longest)
    if factor is not None:
        lengths = tf.minimum(lengths, tf.cast(tf.cast(source.lengths, tf.float32) * factor, tf.int32))
    rows = {"source": source.ids, "lengths": source.lengths}
    if prefix is not None:
        rows |= {"prefix": prefix.ids, "prefix_lengths": prefix.lengths - 1}
        lengths = tf.maximum(lengths, prefix.lengths)
    return rows | {"max_lengths": tf.where(source.empty, 0, lengths)}


def with_seeds(rows: dict[str, tf.Tensor], text: tf.Tensor, seed: int) -> dict[str, tf.Tensor]:
    """Rows for sampling: the samples of a row depend on the seed and on its text."""
    hashes = tf.cast(tf.strings.to_hash_bucket_fast(text, 2**31 - 1), tf.int32)
    return rows | {"seeds": tf.stack([tf.fill(tf.shape(hashes), seed), hashes], axis=1)}


def require_tensorflow() -> None:
    """Raise RuntimeError unless Keras runs on TensorFlow."""
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise RuntimeError(
            f"Translator needs Keras on TensorFlow. Received: the backend {backend!r}. Set the environment variable "
            "KERAS_BACKEND=tensorflow before Keras is imported."
        )


def either_truncated(source: Ids, target: Ids | None) -> tf.Tensor:
    """Whether one side was truncated: [N] bool."""
    return source.truncated if target is None else source.truncated | target.truncated


def check_tokenizers(config: ModelConfig, tokenizers: TokenizerPair) -> None:
    """Reject tokenizers whose ids are not the model's."""
    source = {"vocab_size": config.vocab_size, "pad_id": config.pad_id, "eos_id": config.eos_id}
    target = source | {"vocab_size": config.decoder_vocab_size, "bos_id": config.bos_id, "add_eos": True}
    for side, expected in (("source", source), ("target", target)):
        for name, value in expected.items():
            found = getattr(getattr(tokenizers, side), name)
            if found != value:
                raise ValueError(
                    f"Expected the {side} tokenizer's {name} to be the model's, {value}. Received: {found}. Use the "
                    "tokenizers that the model was trained with."
                )


def search_options(
    decoding: DecodingConfig, model: ModelConfig, nbest: int | None, forbidden: Iterable[int] = (), free_prefix: int = 0
) -> SearchOptions:
    """The options of a search for the `nbest` best outputs, None for all beams, without `forbidden` ids."""
    return SearchOptions(
        eos_id=model.eos_id,
        pad_id=model.pad_id,
        beam_size=1 if decoding.sampling and nbest else decoding.beam_size,
        nbest=None if decoding.sampling else nbest,
        length_penalty=decoding.length_penalty,
        alpha=decoding.alpha,
        length_reward=decoding.length_reward,
        early_stopping=decoding.early_stopping,
        min_length=decoding.min_length,
        no_repeat_ngram=decoding.no_repeat_ngram,
        coverage_penalty=decoding.coverage_penalty,
        diversity=decoding.diversity,
        forbidden_ids=tuple(sorted({model.pad_id, model.bos_id, *forbidden})),
        free_prefix=free_prefix,
    )


def search_ids(
    model: Transformer,
    rows: dict[str, tf.Tensor],
    options: SearchOptions,
    sampling: SamplingOptions | None = None,
    shortlist: CandidateTable | None = None,
) -> Hypotheses:
    """The K best, or sampled, outputs of each row.

    Args:
        rows: "source" (N, S) int32, padded; "lengths" (N,) int32, of the source; "max_lengths" (N,) int32, of the
            output, 0 where none is wanted. If the output is to begin with given ids: "prefix" (N, P) and
            "prefix_lengths" (N,) int32. For sampling: "seeds" (N, 2) int32.
        sampling: None is beam search.
        shortlist: restricts each row to the candidates of its source; not with sampling.
    """

    def search(rows: dict[str, tf.Tensor]) -> tuple[Hypotheses, tf.Tensor]:
        return search_batch(model, rows, options, sampling, shortlist), tf.zeros_like(rows["lengths"])

    return search_in_batches(search, rows, options.beam_size)[0]


def search_batch(
    model: Transformer,
    rows: dict[str, tf.Tensor],
    options: SearchOptions,
    sampling: SamplingOptions | None = None,
    shortlist: CandidateTable | None = None,
    all_layers: bool = False,
    memory: tf.Tensor | None = None,
) -> Hypotheses:
    """`search_ids` of rows that are one batch, with the coverage by the last layer, or by all, if it is tracked.

    `memory` is the encoder's output, if it was computed already.
    """
    candidates = None if shortlist is None else shortlist.of(rows["source"], rows["lengths"], rows.get("prefix"))
    decoder = DecoderStep.from_model(model, options.beam_size, options.needs_attention, all_layers, candidates)
    source, lengths = rows["source"], rows["max_lengths"]
    memory = model.encode(source) if memory is None else memory
    state = decoder.start(memory, padding_mask(source, model.config.pad_id))
    start = tf.fill(tf.shape(lengths), model.config.bos_id)
    arguments: dict[str, Any] = {
        name: rows[name] for name in ("prefix", "prefix_lengths", "min_lengths") if name in rows
    }
    arguments |= {"grow": decoder.grow, "source_length": tf.shape(source)[1]}
    if sampling is None:
        return beam_search(decoder, state, start, lengths, options, **arguments)
    return sample(decoder, state, start, lengths, rows["seeds"], options, sampling, **arguments)


POSITIONS = 512
"""Positions whose logits are held at once: (512, V) instead of (B, T, V)."""


def score_ids(
    model: Transformer, source: tf.Tensor, target: tf.Tensor, target_lengths: tf.Tensor, first: int = 0
) -> tf.Tensor:
    """The sum of the log-probabilities of each row's ids, some rows at a time.

    Args:
        source: (B, S) int32, ending in EOS, padded.
        target: (B, T) int32, of which the first `target_lengths` (B,) count.
        first: the first id that counts; those before it are given.

    Returns:
        (B,) float32.
    """
    source_lengths = tf.reduce_sum(tf.cast(source != model.config.pad_id, tf.int32), axis=1)
    rows = {"source": source, "target": target, "target_lengths": target_lengths}
    rows["lengths"] = tf.maximum(source_lengths, target_lengths)

    def scores(some: dict[str, tf.Tensor], longest: tf.Tensor) -> list[tf.Tensor]:
        source, target = some["source"][:, :longest], some["target"][:, :longest]
        return [_score_rows(model, source, target, some["target_lengths"], first)]

    return map_batches(scores, rows, [tf.TensorSpec([None], tf.float32)])[0]


def _score_rows(
    model: Transformer, source: tf.Tensor, target: tf.Tensor, target_lengths: tf.Tensor, first: int
) -> tf.Tensor:
    start = tf.fill([tf.shape(target)[0], 1], model.config.bos_id)
    inputs = tf.concat([start, target[:, :-1]], axis=1)
    mask = padding_mask(source, model.config.pad_id)
    hidden = tf.cast(model.decode_hidden(inputs, model.encode(source), mask), tf.float32)
    each = log_probs_of(model, hidden, target)
    places = tf.range(tf.shape(target)[1])
    counted = (places < target_lengths[:, None]) & (places >= first)
    return tf.reduce_sum(tf.where(counted, each, 0.0), axis=1)


def log_probs_of(model: Transformer, hidden: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Log-probabilities (B, T) of the ids `target`, some positions at a time, of hidden states (B, T, D) float32."""
    shape = tf.shape(target)
    hidden, target = tf.reshape(hidden, [-1, model.config.model_dim]), tf.reshape(target, [-1])
    count = tf.shape(target)[0]

    def some_positions(first: tf.Tensor, found: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows = slice(first, tf.minimum(first + POSITIONS, count))
        logits = model.logits(hidden[rows][None])[0]
        chosen = tf.gather(logits, target[rows], batch_dims=1)
        return first + POSITIONS, tf.concat([found, chosen - tf.reduce_logsumexp(logits, axis=-1)], axis=0)

    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    start = [0, tf.zeros([0])]
    return tf.reshape(tf.while_loop(lambda first, _: first < count, some_positions, start, shapes)[1], shape)
