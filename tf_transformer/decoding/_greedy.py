"""Greedy search, and the unbranched paths that it shares with sampling."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_transformer.decoding._candidates import best_continuations
from tf_transformer.decoding._loop import SearchState, hypotheses, keep_done, run_search
from tf_transformer.decoding._options import (
    NEG_INF,
    GrowFunction,
    Hypotheses,
    SearchOptions,
    Step,
    StepFunction,
    StepResult,
    coverage_penalty,
    length_penalty,
)


def follow_paths(
    step_fn: StepFunction,
    state: Any,
    rows: SearchState,
    choose: Callable,
    options: SearchOptions,
    grow: GrowFunction | None,
) -> Hypotheses:
    """The paths that `choose` takes from `first_paths`, each until EOS or its longest length.

    choose: (StepResult, index, values, history (B, K, C)) -> log-probability and id of the next step,
        (B, K) each; a log-probability of NEG_INF discards the path.
    """

    def advance(index: tf.Tensor, rows: SearchState, state: Any) -> tuple[SearchState, Any]:
        return _advance(step_fn, index, rows, state, choose, options)

    rows = run_search(advance, rows, state, tf.reduce_max(rows.values["max_lengths"]), grow)
    values = rows.values
    scores = values["log_probs"] / length_penalty(values["lengths"], options.alpha, options.length_penalty)
    if options.coverage_penalty:
        scores += coverage_penalty(values["coverage"], options.coverage_penalty)
    return hypotheses(rows.histories["ids"], values["lengths"], scores, values["log_probs"], values["ended"], options)


def first_paths(
    start_ids: tf.Tensor,
    max_lengths: tf.Tensor,
    paths: int,
    options: SearchOptions,
    prefix: tf.Tensor = None,
    prefix_lengths: tf.Tensor = None,
    source_length: tf.Tensor = None,
) -> SearchState:
    """`paths` empty hypotheses per row."""
    batch = tf.shape(start_ids)[0]
    values = {
        "tokens": tf.tile(start_ids[:, None], [1, paths]),
        "log_probs": tf.zeros([batch, paths]),
        "lengths": tf.zeros([batch, paths], tf.int32),
        "ended": tf.zeros([batch, paths], tf.bool),
        "max_lengths": max_lengths,
    }
    if prefix is not None:
        values |= {"prefix": prefix, "prefix_lengths": prefix_lengths}
    if options.coverage_penalty:
        values["coverage"] = tf.zeros([batch, paths, source_length])
    histories = {"ids": tf.zeros([batch, paths, 0], tf.int32)}
    return SearchState(max_lengths <= 0, values, histories)


def _advance(
    step_fn: StepFunction, index: tf.Tensor, rows: SearchState, state: Any, choose: Callable, options: SearchOptions
) -> tuple[SearchState, Any]:
    values, ids = dict(rows.values), rows.histories["ids"]
    shape = tf.shape(ids)
    own = tf.broadcast_to(tf.range(shape[1])[None, :, None], shape)
    result = step_fn(Step(values["tokens"], index, own), state)
    log_probs, tokens = choose(result, index, values, ids)
    possible = log_probs > NEG_INF / 2
    open_before = ~values["ended"] & (values["lengths"] == index)
    grows = open_before & possible
    values["log_probs"] = tf.where(grows, values["log_probs"] + log_probs, values["log_probs"])
    values["lengths"] = tf.where(grows, index + 1, tf.where(open_before, 0, values["lengths"]))
    values["ended"] |= grows & (tokens == options.eos_id)
    values["tokens"] = tokens
    if options.coverage_penalty:
        values["coverage"] += tf.where(grows[..., None], result.attention, 0.0)
    ids = tf.where(tf.range(shape[2]) == index, tokens[..., None], ids)
    closed = values["ended"] | (values["lengths"] <= index)
    done = tf.reduce_all(closed, axis=1) | (index + 1 >= values["max_lengths"])
    return keep_done(rows, SearchState(done, values, {"ids": ids})), result.state


def greedy_search(
    step_fn: StepFunction,
    state: Any,
    start_ids: tf.Tensor,
    max_lengths: tf.Tensor,
    options: SearchOptions,
    grow: GrowFunction | None = None,
    prefix: tf.Tensor | None = None,
    prefix_lengths: tf.Tensor | None = None,
    source_length: tf.Tensor | None = None,
) -> Hypotheses:
    """Find one hypothesis per row; the arguments are those of `beam_search`. Diversity has no meaning here."""
    rows = first_paths(start_ids, max_lengths, 1, options, prefix, prefix_lengths, source_length)

    def choose(
        result: StepResult, index: tf.Tensor, values: dict[str, tf.Tensor], history: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        log_probs, ids = best_continuations(result, 1, index, values, history, options)
        best = tf.argmax(log_probs, axis=-1, output_type=tf.int32)
        return (tf.gather(log_probs, best, batch_dims=2), tf.gather(ids, best, batch_dims=2))

    return follow_paths(step_fn, state, rows, choose, options, grow)
