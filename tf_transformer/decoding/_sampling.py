"""Searches without a beam: greedy search, and sampling, in which the same seeds give the same outputs."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_transformer.decoding._candidates import best_continuations, forbid, forbid_repeats
from tf_transformer.decoding._loop import SearchState, hypotheses, keep_done, run_search
from tf_transformer.decoding._options import (
    NEG_INF,
    GrowFunction,
    Hypotheses,
    SearchArguments,
    SearchOptions,
    Step,
    StepFunction,
    StepResult,
    coverage_penalty,
    length_scores,
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
    scores = length_scores(values["log_probs"], values["lengths"], options)
    if options.coverage_penalty:
        scores += coverage_penalty(values["coverage"], options.coverage_penalty)
    found = rows.histories["ids"], values["lengths"], scores, values["log_probs"], values["ended"]
    return hypotheses(*found, options, values["coverage"] if options.track_coverage else None)


def first_paths(given: SearchArguments, paths: int, options: SearchOptions) -> SearchState:
    """`paths` empty hypotheses per row."""
    batch = tf.shape(given.start_ids)[0]
    values = {
        "tokens": tf.tile(given.start_ids[:, None], [1, paths]),
        "log_probs": tf.zeros([batch, paths]),
        "lengths": tf.zeros([batch, paths], tf.int32),
        "ended": tf.zeros([batch, paths], tf.bool),
        "max_lengths": given.max_lengths,
    } | given.constraints()
    if options.needs_attention:
        values["coverage"] = tf.zeros([batch, paths, given.source_length])
    histories = {"ids": tf.zeros([batch, paths, 0], tf.int32)}
    return SearchState(given.max_lengths <= 0, values, histories)


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
    if options.needs_attention:
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
    min_lengths: tf.Tensor | None = None,
) -> Hypotheses:
    """Find one hypothesis per row; the arguments are those of `beam_search`. Diversity has no meaning here."""
    given = SearchArguments(start_ids, max_lengths, prefix, prefix_lengths, source_length, min_lengths)
    rows = first_paths(given.check(step_fn, 1), 1, options)

    def choose(
        result: StepResult, index: tf.Tensor, values: dict[str, tf.Tensor], history: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        log_probs, ids = best_continuations(result, 1, index, values, history, options)
        best = tf.argmax(log_probs, axis=-1, output_type=tf.int32)
        return (tf.gather(log_probs, best, batch_dims=2), tf.gather(ids, best, batch_dims=2))

    return follow_paths(step_fn, state, rows, choose, options, grow)


@dataclasses.dataclass(frozen=True)
class SamplingOptions:
    """Options of the distribution to sample from.

    temperature: logits are divided by it.
    top_k: only the k likeliest ids are drawn from; 0: all.
    top_p: only the likeliest ids that together just reach this probability (Holtzman et al. 2020); 1: all.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueError(
                f"temperature must be above 0. Received: {self.temperature}. For the best id use greedy search."
            )
        if self.top_k < 0:
            raise ValueError(f"top_k must be at least 0. Received: {self.top_k}. Use 0 to draw from all ids.")
        if not 0 < self.top_p <= 1:
            raise ValueError(
                f"top_p must be above 0 and at most 1. Received: {self.top_p}. Use 1 to draw from all ids."
            )


def sample(
    step_fn: StepFunction,
    state: Any,
    start_ids: tf.Tensor,
    max_lengths: tf.Tensor,
    seeds: tf.Tensor,
    options: SearchOptions,
    sampling: SamplingOptions,
    grow: GrowFunction | None = None,
    prefix: tf.Tensor | None = None,
    prefix_lengths: tf.Tensor | None = None,
    source_length: tf.Tensor | None = None,
) -> Hypotheses:
    """`options.beam_size` independent samples per row, in the order they were drawn.

    The other arguments are those of `beam_search`. `seeds` is (B, 2) int32, one seed per row, so that the samples of
    a row do not depend on its batch. Scores and log-probabilities are the model's, whatever the
    temperature.
    """
    given = SearchArguments(start_ids, max_lengths, prefix, prefix_lengths, source_length)
    given, paths = given.check(step_fn, options.beam_size), options.beam_size
    rows = first_paths(given, paths, options)
    limit = tf.reduce_max(tf.pad(given.max_lengths, [[0, 1]]))
    rows.values["uniform"] = _uniform(tf.cast(seeds, tf.int32), paths, limit)

    def choose(
        result: StepResult, index: tf.Tensor, values: dict[str, tf.Tensor], history: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        logits = result.logits
        log_probs = tf.nn.log_softmax(logits)
        allowed = _allowed(logits, index, history, options)
        tokens = _draw(allowed / sampling.temperature, values["uniform"][:, :, index], sampling)
        # Where nothing is allowed, what was drawn is not either.
        possible = tf.gather(allowed, tokens, batch_dims=2) > NEG_INF / 2
        if "prefix" in values:
            width = tf.shape(values["prefix"])[1]
            forced = tf.pad(values["prefix"], [[0, 0], [0, 1]])[:, tf.minimum(index, width), None]
            inside = (index < values["prefix_lengths"])[:, None]
            tokens, possible = tf.where(inside, forced, tokens), possible | inside
            log_probs = tf.where(index < options.free_prefix, 0.0, log_probs)
        return tf.where(possible, tf.gather(log_probs, tokens, batch_dims=2), NEG_INF), tokens

    return follow_paths(step_fn, state, rows, choose, options, grow)


def _uniform(seeds: tf.Tensor, paths: int, limit: tf.Tensor) -> tf.Tensor:
    """Numbers in [0, 1) for every step of every path, from each row's own seed: (B, 2) -> (B, K, limit).

    A step's number must not depend on the longest row of the batch, so each step has a draw of its own.
    """

    def of_row(seed: tf.Tensor) -> tf.Tensor:
        def of_step(step: tf.Tensor) -> tf.Tensor:
            return tf.random.stateless_uniform([paths], tf.random.experimental.stateless_fold_in(seed, step))

        return tf.transpose(tf.map_fn(of_step, tf.range(limit), fn_output_signature=tf.float32))

    signature = tf.TensorSpec([paths, None], tf.float32)
    # One row more, which is dropped: `map_fn` cannot infer the shape for zero rows.
    return tf.map_fn(of_row, tf.pad(seeds, [[0, 1], [0, 0]]), fn_output_signature=signature)[:-1]


def _allowed(logits: tf.Tensor, index: tf.Tensor, history: tf.Tensor, options: SearchOptions) -> tf.Tensor:
    """Logits with NEG_INF for every id that must not come next: (B, K, V)."""
    if options.no_repeat_ngram:
        logits = forbid_repeats(logits, history, index, options.no_repeat_ngram)
    ids = tf.range(logits.shape[-1])[None, None]
    return forbid(logits, ids, index, options)


def _draw(logits: tf.Tensor, uniform: tf.Tensor, sampling: SamplingOptions) -> tf.Tensor:
    """Draw one id per path, by the inverse of the cumulative distribution: (B, K, V), (B, K) -> (B, K)."""
    vocab_size = logits.shape[-1]
    if not sampling.top_k and sampling.top_p == 1:
        return _invert(tf.nn.softmax(logits), uniform)
    logits, ids = tf.math.top_k(logits, min(sampling.top_k or vocab_size, vocab_size))
    probs = tf.nn.softmax(logits)
    before = tf.cumsum(probs, axis=-1, exclusive=True)
    place = _invert(tf.where(before < sampling.top_p, probs, 0.0), uniform)
    return tf.gather(ids, place, batch_dims=2)


def _invert(probs: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """The first place whose cumulative probability exceeds the number, of those that are possible at all."""
    sums = tf.cumsum(probs, axis=-1)
    target = uniform[..., None] * sums[..., -1:]
    place = tf.reduce_sum(tf.cast(sums <= target, tf.int32), axis=-1)
    last = tf.reduce_max(tf.where(probs > 0, tf.range(probs.shape[-1]), 0), axis=-1)
    return tf.minimum(place, last)
