"""Candidates for the next token: constraints, exact top-k over a large vocabulary, and log-probabilities.

Constraints decide what is produced, not what it scores: log-probabilities stay the model's own.
"""

import math
from collections.abc import Callable

import tensorflow as tf

from tf_transformer.decoding._options import NEG_INF, CandidateVocabulary, SearchOptions, StepResult

SMALLEST_BLOCK, LARGEST_BLOCK = 32, 160
"""Logits per block. If a number in this range divides the vocabulary size, no copy of the logits is made."""
SMALL = 16
"""With fewer blocks than this many times the candidates, one plain top_k is as fast."""
COLUMN_BLOCK, MIN_COLUMNS = 64, 1024
"""Logits per block, and logits at least, where their number is not static but a multiple of the first."""


def top_candidates(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The `count` largest logits and their ids, ties by the lower id: (…, V) -> (…, count), (…, count).

    In two stages: the largest of each block, then the candidates inside the best `count` blocks. Whatever is among
    the best `count` lies in one of these blocks. They are looked at in the order of their ids, so that ties break as
    in one `top_k` over everything.
    """
    vocab_size = logits.shape[-1]
    if vocab_size is None:
        raise ValueError(
            f"Expected logits whose last axis, the vocabulary, has a static size. Received: shape {logits.shape}. Use "
            "tf.ensure_shape."
        )
    size = _block_size(vocab_size, count)
    if vocab_size < max(SMALL * max(size, count), size * count):  # the latter: fewer blocks than candidates
        return tf.math.top_k(logits, min(count, vocab_size))
    return _top_of_blocks(_blocks(logits, size), size, count)


def _top_columns(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """`top_candidates` of a multiple of `COLUMN_BLOCK` columns, `MIN_COLUMNS` at least."""
    if count * COLUMN_BLOCK > MIN_COLUMNS:
        return tf.math.top_k(logits, count)
    shape = tf.concat([tf.shape(logits)[:-1], [tf.shape(logits)[-1] // COLUMN_BLOCK, COLUMN_BLOCK]], axis=0)
    return _top_of_blocks(tf.reshape(logits, shape), COLUMN_BLOCK, count)


def _top_of_blocks(blocks: tf.Tensor, size: int, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The `count` largest of (…, blocks, size) and their places in all of them, in two stages."""
    _, best = tf.math.top_k(tf.reduce_max(blocks, axis=-1), count)
    best = tf.sort(best, axis=-1)
    inside = tf.gather(blocks, best, batch_dims=best.shape.rank - 1)
    flat = tf.concat([tf.shape(best)[:-1], [count * size]], axis=0)
    values, places = tf.math.top_k(tf.reshape(inside, flat), count)
    ids = tf.gather(best, places // size, batch_dims=best.shape.rank - 1) * size + places % size
    return values, ids


def _block_size(vocab_size: int, count: int) -> int:
    """The size that divides the vocabulary and makes both stages about equally long; else the latter alone."""
    balanced = min(max(round(math.sqrt(vocab_size / count)), SMALLEST_BLOCK), LARGEST_BLOCK)
    sizes = [size for size in range(SMALLEST_BLOCK, LARGEST_BLOCK + 1) if vocab_size % size == 0]
    return min(sizes, key=lambda size: abs(size - balanced), default=balanced)


def _blocks(logits: tf.Tensor, size: int) -> tf.Tensor:
    """(…, V) -> (…, ceil(V / size), size)."""
    missing = -logits.shape[-1] % size
    if missing:
        logits = tf.pad(logits, [[0, 0]] * (logits.shape.rank - 1) + [[0, missing]], constant_values=2 * NEG_INF)
    shape = tf.concat([tf.shape(logits)[:-1], [logits.shape[-1] // size, size]], axis=0)
    return tf.reshape(logits, shape)


def log_normalizer(logits: tf.Tensor, likely: tf.Tensor) -> tf.Tensor:
    """log(sum(exp(logits))), given a likely id of each row: (…, V), (…,) int32 -> (…,).

    By way of the softmax, which TensorFlow computes in one pass: the logit of an id less its log-probability.
    """
    likely = likely[..., None]
    logit = tf.gather(logits, likely, batch_dims=logits.shape.rank - 1)
    prob = tf.gather(tf.nn.softmax(logits), likely, batch_dims=logits.shape.rank - 1)
    return tf.squeeze(logit - tf.math.log(prob), axis=-1)


def spare_candidates(options: SearchOptions, min_lengths: tf.Tensor | None = None) -> int:
    """Number of the best ids that `forbid` may have to reject."""
    return len(options.forbidden_ids) + (options.min_length > 0 or min_lengths is not None)


def forbid(
    values: tf.Tensor, ids: tf.Tensor, index: tf.Tensor, options: SearchOptions, min_lengths: tf.Tensor | None = None
) -> tf.Tensor:
    """Candidates without forbidden ids, and without EOS before the minimum length: (B, K, M) twice -> (B, K, M).

    min_lengths: (B,) int32, those of the rows, besides the one of the options.
    """
    if sorted(options.forbidden_ids) == list(range(len(options.forbidden_ids))):  # PAD, UNK and BOS, as a rule
        values = tf.where(ids < len(options.forbidden_ids), NEG_INF, values)
    else:
        for forbidden in options.forbidden_ids:
            values = tf.where(ids == forbidden, NEG_INF, values)
    if options.min_length:
        values = tf.where((ids == options.eos_id) & (index < options.min_length), NEG_INF, values)
    if min_lengths is not None:
        values = tf.where((ids == options.eos_id) & (index < min_lengths)[:, None, None], NEG_INF, values)
    return values


def force_prefix(
    values: tf.Tensor,
    ids: tf.Tensor,
    log_probs_of: Callable,
    index: tf.Tensor,
    prefix: tf.Tensor,
    prefix_lengths: tf.Tensor,
    free: int = 0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Candidates restricted to the id of the prefix, in rows whose prefix is not yet complete.

    Args:
        values, ids: (B, K, M), the candidates' log-probabilities and ids.
        log_probs_of: (B,) ids -> (B, K), the log-probability of one id for each row.
        prefix: (B, P) int32, with `prefix_lengths` (B,) int32.
        free: how many of its ids have a log-probability of 0.
    """
    width = tf.shape(prefix)[1]
    inside = index < prefix_lengths
    padded = tf.pad(prefix, [[0, 0], [0, 1]])
    token = tf.where(inside, padded[:, tf.minimum(index, width)], 0)
    costs = log_probs_of(token)[..., None]
    only = tf.where(tf.range(tf.shape(ids)[2]) == 0, tf.where(index < free, 0.0, costs), NEG_INF)
    rows = inside[:, None, None]
    return tf.where(rows, only, values), tf.where(rows, token[:, None, None], ids)


def forbid_repeats(
    logits: tf.Tensor, history: tf.Tensor, index: tf.Tensor, size: int, vocabulary: CandidateVocabulary | None = None
) -> tf.Tensor:
    """Logits without the ids that would end an n-gram a second time.

    Args:
        logits: (B, K, V), or (B, K, U) of a `vocabulary`.
        history: (B, K, C) int32, of which the first `index` ids count.
        size: n, at least 1.
    """
    shape = tf.shape(history)
    batch, beams, capacity = shape[0], shape[1], shape[2]
    padded = tf.pad(history, [[0, 0], [0, 0], [0, size]])
    last = tf.gather(padded, tf.maximum(index - size + 1, 0) + tf.range(size - 1), axis=2)
    ends = tf.range(capacity) + size - 1
    repeated = tf.broadcast_to((ends < index)[None, None], shape)
    for offset in range(size - 1):
        repeated &= padded[:, :, offset : offset + capacity] == last[:, :, offset, None]
    banned = padded[:, :, size - 1 : size - 1 + capacity]
    if vocabulary is not None:
        banned = tf.gather(vocabulary.places, banned)
        repeated, banned = repeated & (banned >= 0), tf.maximum(banned, 0)
    row, beam, _ = tf.meshgrid(tf.range(batch), tf.range(beams), tf.range(capacity), indexing="ij")
    places = tf.stack([row, beam, banned], axis=-1)
    return tf.tensor_scatter_nd_add(logits, places, tf.where(repeated, NEG_INF, 0.0))


def best_continuations(
    result: StepResult,
    count: int,
    index: tf.Tensor,
    values: dict[str, tf.Tensor],
    history: tf.Tensor,
    options: SearchOptions,
) -> tuple[tf.Tensor, tf.Tensor]:
    """At least `count` continuations of each beam, the best first except for those that are forbidden.

    Args:
        result: of the step function.
        index: scalar int32, how many ids `history` (B, K, C) holds.
        values: the rows' values; "prefix" (B, P), "prefix_lengths" (B,) and "min_lengths" (B,) are looked for in it.

    Returns:
        log-probabilities (B, K, M), NEG_INF where forbidden, and ids (B, K, M).
    """
    logits, vocabulary = result.logits, result.vocabulary
    allowed = logits
    if options.no_repeat_ngram:
        allowed = forbid_repeats(logits, history, index, options.no_repeat_ngram, vocabulary)
    min_lengths = values.get("min_lengths")
    top = top_candidates if vocabulary is None else _top_columns
    best, ids = top(allowed, count + spare_candidates(options, min_lengths))
    likeliest = tf.argmax(logits, -1, tf.int32) if options.no_repeat_ngram else ids[..., 0]
    normalizer = log_normalizer(logits, likeliest)
    if vocabulary is not None:
        ids = tf.gather(vocabulary.ids, ids)
    log_probs = forbid(best - normalizer[..., None], ids, index, options, min_lengths)
    if "prefix" in values:

        def log_probs_of(token: tf.Tensor) -> tf.Tensor:
            if vocabulary is not None:  # those of a prefix are candidates
                token = tf.maximum(tf.gather(vocabulary.places, token), 0)
            token = tf.broadcast_to(token[:, None], tf.shape(normalizer))
            return tf.gather(logits, token, batch_dims=2) - normalizer

        prefix = values["prefix"], values["prefix_lengths"]
        log_probs, ids = force_prefix(log_probs, ids, log_probs_of, index, *prefix, options.free_prefix)
    return log_probs, ids
