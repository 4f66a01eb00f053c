"""Beam search as a pure graph function over a step function. It knows no model.

The search keeps only small things: ids, scores, and each beam's ancestry. The model's cache is never reordered: a
`Step.ancestors` gives the slots in which the past of each beam is stored.
"""

from typing import Any

import tensorflow as tf

from tf_transformer.decoding._candidates import best_continuations
from tf_transformer.decoding._loop import SearchState, best_hypotheses, keep_done, run_search
from tf_transformer.decoding._options import (
    NEG_INF,
    GrowFunction,
    Hypotheses,
    SearchArguments,
    SearchOptions,
    Step,
    StepFunction,
    coverage_penalty,
    length_scores,
)
from tf_transformer.decoding._sampling import greedy_search


def beam_search(
    step_fn: StepFunction,
    state: Any,
    start_ids: tf.Tensor,
    max_lengths: tf.Tensor,
    options: SearchOptions,
    grow: GrowFunction | None = None,
    prefix: tf.Tensor | None = None,
    prefix_lengths: tf.Tensor | None = None,
    source_length: tf.Tensor | None = None,
    min_lengths: tf.Tensor | None = None,
) -> Hypotheses:
    """Find the K best outputs of each row with a beam of K.

    At each step the best 2K continuations are looked at. Those of the first K that end in EOS are finished and
    compete by score for K places; the best K of the others stay alive. A row stops when the best score that
    any hypothesis alive can still reach (log-probabilities only fall, the penalty divides by no more and the reward
    adds no more than at the longest length) does not beat the finished ones that are wanted; with early stopping, when
    K are finished. Ties go to the earlier beam and the lower id.

    Args:
        step_fn: (Step, state) -> StepResult. If it has a `beam_size`, that is K or more (1 or more for greedy search).
        state: a structure of tensors whose first axis is the batch.
        start_ids: (B,) int32, the decoder's first input. Integers of any type, also as lists, become int32.
        max_lengths: (B,) int32, EOS counted. A row with 0 is not searched at all.
        grow: (state, capacity) -> state with room for so many steps; called before each block of steps.
        prefix, prefix_lengths: (B, P) and (B,) int32, ids that the output must begin with.
        source_length: scalar int32, S of `StepResult.attention`; needed if the options need attention.
        min_lengths: (B,) int32, ids before EOS, at the least, of each row; besides `options.min_length`.
    """
    if options.needs_attention and source_length is None:
        raise ValueError(
            "Expected source_length with coverage_penalty or track_coverage. Received: None. Pass the size of "
            "StepResult.attention."
        )
    if options.beam_size == 1:
        return greedy_search(
            step_fn, state, start_ids, max_lengths, options, grow, prefix, prefix_lengths, source_length, min_lengths
        )
    given = SearchArguments(start_ids, max_lengths, prefix, prefix_lengths, source_length, min_lengths)
    rows = _first_state(given.check(step_fn, options.beam_size), options)

    def advance(index: tf.Tensor, rows: SearchState, state: Any) -> tuple[SearchState, Any]:
        return _advance(step_fn, index, rows, state, options)

    rows = run_search(advance, rows, state, tf.reduce_max(rows.values["max_lengths"]), grow)
    return best_hypotheses(rows, options)


def _first_state(given: SearchArguments, options: SearchOptions) -> SearchState:
    """One hypothesis alive per row, BOS; the other beams are inactive in the first step."""
    batch, beams = tf.shape(given.start_ids)[0], options.beam_size
    alive = tf.where(tf.range(beams) == 0, 0.0, NEG_INF)
    none = tf.fill([batch, beams], NEG_INF)
    values = {
        "tokens": tf.tile(given.start_ids[:, None], [1, beams]),
        "log_probs": tf.tile(alive[None], [batch, 1]),
        "lengths": tf.zeros([batch], tf.int32),
        "finished_scores": none,
        "finished_log_probs": none,
        "finished_lengths": tf.zeros([batch, beams], tf.int32),
        "max_lengths": given.max_lengths,
    } | given.constraints()
    if options.needs_attention:
        values["coverage"] = tf.zeros([batch, beams, given.source_length])
    if options.track_coverage:
        values["finished_coverage"] = values["coverage"]
    empty = tf.zeros([batch, beams, 0], tf.int32)
    return SearchState(given.max_lengths <= 0, values, {"ids": empty, "ancestors": empty, "finished_ids": empty})


def _advance(
    step_fn: StepFunction, index: tf.Tensor, rows: SearchState, state: Any, options: SearchOptions
) -> tuple[SearchState, Any]:
    """One step of all rows: call the model, choose among the continuations."""
    values, histories = dict(rows.values), dict(rows.histories)
    beams = options.beam_size
    here = tf.range(tf.shape(histories["ids"])[2]) == index
    histories["ancestors"] = tf.where(here, tf.range(beams)[None, :, None], histories["ancestors"])
    active = tf.where(index == 0, 1, beams)  # before the first step one beam is active
    result = step_fn(Step(values["tokens"][:, :active], index, histories["ancestors"][:, :active]), state)
    if options.needs_attention:
        values["coverage"] += result.attention  # in the first step that of one beam, for all
    log_probs, ids = best_continuations(result, 2 * beams, index, values, histories["ids"][:, :active], options)
    log_probs = tf.maximum(values["log_probs"][:, :active, None] + log_probs, NEG_INF)
    log_probs, parents, tokens = _best(log_probs, ids, options)
    _finish(values, histories, log_probs, parents, tokens, here, index, options)
    _continue(values, histories, log_probs, parents, tokens, here, index, options)
    done = _done(values, index, options)
    return keep_done(rows, SearchState(done, values, histories)), result.state


def _best(log_probs: tf.Tensor, ids: tf.Tensor, options: SearchOptions) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The best 2K continuations of all beams: (B, K, M), (B, K, M) -> log-probability, parent and id, (B, 2K) each.

    Inactive beams are padded with NEG_INF.
    """
    batch, active, each = tf.unstack(tf.shape(ids))
    missing = [[0, 0], [0, options.beam_size - active], [0, 0]]
    log_probs, ids = tf.pad(log_probs, missing, constant_values=NEG_INF), tf.pad(ids, missing)
    keys = log_probs
    if options.diversity:
        possible = tf.cast(log_probs > NEG_INF / 2, tf.float32)
        keys -= options.diversity * tf.cumsum(possible, axis=-1, exclusive=True)
    flat = [batch, options.beam_size * each]
    _, places = tf.math.top_k(tf.reshape(keys, flat), 2 * options.beam_size)
    log_probs = tf.gather(tf.reshape(log_probs, flat), places, batch_dims=1)
    return log_probs, places // each, tf.gather(tf.reshape(ids, flat), places, batch_dims=1)


def _finish(
    values: dict[str, tf.Tensor],
    histories: dict[str, tf.Tensor],
    log_probs: tf.Tensor,
    parents: tf.Tensor,
    tokens: tf.Tensor,
    here: tf.Tensor,
    index: tf.Tensor,
    options: SearchOptions,
) -> None:
    """Rank those of the best K that end in EOS among the finished hypotheses."""
    beams = options.beam_size
    log_probs, parents, tokens = log_probs[:, :beams], parents[:, :beams], tokens[:, :beams]
    scores = length_scores(log_probs, index + 1, options)
    if options.coverage_penalty:
        penalties = coverage_penalty(values["coverage"], options.coverage_penalty)
        scores += tf.gather(penalties, parents, batch_dims=1)
    scores = tf.where((tokens == options.eos_id) & (log_probs > NEG_INF / 2), scores, NEG_INF)
    scores = tf.concat([values["finished_scores"], scores], axis=1)
    values["finished_scores"], kept = tf.math.top_k(scores, beams)

    def keep(old: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.concat([old, new], axis=1), kept, batch_dims=1)

    values["finished_log_probs"] = keep(values["finished_log_probs"], log_probs)
    lengths = tf.fill(tf.shape(tokens), index + 1)
    values["finished_lengths"] = keep(values["finished_lengths"], lengths)
    if options.track_coverage:
        coverage = tf.gather(values["coverage"], parents, batch_dims=1)
        values["finished_coverage"] = keep(values["finished_coverage"], coverage)
    ids = tf.where(here, options.eos_id, tf.gather(histories["ids"], parents, batch_dims=1))
    histories["finished_ids"] = keep(histories["finished_ids"], ids)


def _continue(
    values: dict[str, tf.Tensor],
    histories: dict[str, tf.Tensor],
    log_probs: tf.Tensor,
    parents: tf.Tensor,
    tokens: tf.Tensor,
    here: tf.Tensor,
    index: tf.Tensor,
    options: SearchOptions,
) -> None:
    """Keep the best K continuations that do not end in EOS alive."""
    open_log_probs = tf.where(tokens == options.eos_id, 2 * NEG_INF, log_probs)
    order = tf.argsort(tf.cast(tokens == options.eos_id, tf.int32), axis=1, stable=True)[:, : options.beam_size]
    parents = tf.gather(parents, order, batch_dims=1)
    values["log_probs"] = tf.maximum(tf.gather(open_log_probs, order, batch_dims=1), NEG_INF)
    values["tokens"] = tf.gather(tokens, order, batch_dims=1)
    values["lengths"] = tf.fill(tf.shape(values["lengths"]), index + 1)
    if options.needs_attention:
        values["coverage"] = tf.gather(values["coverage"], parents, batch_dims=1)
    ids = tf.gather(histories["ids"], parents, batch_dims=1)
    histories["ids"] = tf.where(here, values["tokens"][..., None], ids)
    histories["ancestors"] = tf.gather(histories["ancestors"], parents, batch_dims=1)


def _done(values: dict[str, tf.Tensor], index: tf.Tensor, options: SearchOptions) -> tf.Tensor:
    """Rows in which no hypothesis alive can still change the wanted ones, or may with early stopping: (B,) bool."""
    best = tf.reduce_max(values["log_probs"], axis=1)
    reachable = length_scores(best, values["max_lengths"], options)
    settled = values["finished_scores"][:, options.wanted - 1]
    beaten = (settled > NEG_INF / 2) & (settled >= reachable)
    if options.early_stopping:
        beaten |= values["finished_scores"][:, -1] > NEG_INF / 2
    return beaten | (best <= NEG_INF / 2) | (index + 1 >= values["max_lengths"])
