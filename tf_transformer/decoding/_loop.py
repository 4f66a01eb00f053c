"""The loop of a search: its state, rows that leave the batch when they are done, and the hypotheses returned."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding._options import (
    NEG_INF,
    GrowFunction,
    Hypotheses,
    SearchOptions,
    coverage_penalty,
    length_scores,
)

MIN_GROWTH = 16
"""Positions that the histories and the cache grow by, at least."""

SMALL_STEP = 6
"""Hypotheses of a small step, at most: oneDNN packs weights in another layout for 7 to about 83."""

_separate: contextvars.ContextVar[bool] = contextvars.ContextVar("separate", default=False)
_small: contextvars.ContextVar[bool] = contextvars.ContextVar("small", default=False)


@contextlib.contextmanager
def separate_small_steps() -> Iterator[None]:
    """Trace each search inside this context with two loops: one for steps of at most `SMALL_STEP` hypotheses (those of
    all sentences of the batch), one for larger steps.
    """
    token = _separate.set(True)
    try:
        yield
    finally:
        _separate.reset(token)


def in_small_step() -> bool:
    """Whether the loop for small steps is being traced; see `separate_small_steps`."""
    return _small.get()


class SearchState(NamedTuple):
    """State of a search; the first axis of every tensor is the batch.

    done: (B,) bool.
    values: anything else, among them "tokens" (B, K), the next input of the step function.
    histories: tensors whose last axis, of size C, is the decoded position; they begin with C = 0.
    """

    done: tf.Tensor
    values: dict[str, tf.Tensor]
    histories: dict[str, tf.Tensor]


def run_search(
    advance: Callable[[tf.Tensor, SearchState, Any], tuple[SearchState, Any]],
    rows: SearchState,
    state: Any,
    limit: tf.Tensor,
    grow: GrowFunction | None = None,
) -> SearchState:
    """Call `advance(index, rows, state)` until all rows are done, and return the rows.

    Histories and cache grow from time to time; rows that are done leave the batch then.

    Args:
        advance: one step of the search; it must leave rows alone that are done.
        rows: all rows; those already done never run.
        state: the model's; a structure of tensors whose first axis is the batch.
        limit: scalar int32, the number of steps after which all rows are done.
        grow: (state, capacity) -> state with room for so many steps.
    """

    def until_full(
        index: tf.Tensor, capacity: tf.Tensor, places: tf.Tensor, results: SearchState, live: SearchState, state: Any
    ) -> tuple:
        places, live, state = _without_done(places, live, state)
        capacity = tf.where(index < capacity, capacity, _next_capacity(capacity, limit))
        live, results = _grown(live, capacity), _grown(results, capacity)
        state = grow(state, capacity) if grow else state
        index, live, state = _by_size(
            tf.size(live.values["tokens"]), lambda: _run_until_full(advance, index, capacity, live, state)
        )
        results = tf.nest.map_structure(
            lambda whole, part: tf.tensor_scatter_nd_update(whole, places[:, None], part), results, live
        )
        return index, capacity, places, results, live, state

    zero = tf.zeros([], tf.int32)
    first = (zero, zero, tf.range(tf.shape(rows.done)[0]), rows, rows, state)
    last = tf.while_loop(
        lambda index, capacity, places, results, live, state: ~tf.reduce_all(live.done),
        until_full,
        first,
        shape_invariants=tf.nest.map_structure(_any_sizes, first),
    )
    return last[3]


def _by_size(hypotheses: tf.Tensor, steps: Callable[[], Any]) -> Any:
    """`steps()`; inside `separate_small_steps` traced twice, for a small and for a larger number of hypotheses."""
    if not _separate.get():
        return steps()

    def small_steps() -> Any:
        token = _small.set(True)
        try:
            return steps()
        finally:
            _small.reset(token)

    return tf.cond(hypotheses <= SMALL_STEP, small_steps, steps)


def _run_until_full(
    advance: Callable, index: tf.Tensor, capacity: tf.Tensor, live: SearchState, state: Any
) -> tuple[tf.Tensor, SearchState, Any]:
    """Steps until the histories are full or half of the rows are done."""
    count = tf.shape(live.done)[0]

    def unfinished(index: tf.Tensor, live: SearchState, state: Any) -> tf.Tensor:
        return (index < capacity) & (2 * tf.reduce_sum(tf.cast(live.done, tf.int32)) < count)

    def step(index: tf.Tensor, live: SearchState, state: Any) -> tuple[tf.Tensor, SearchState, Any]:
        live, state = advance(index, live, state)
        return index + 1, live, state

    first = (index, live, state)
    return tf.while_loop(unfinished, step, first, shape_invariants=tf.nest.map_structure(_any_sizes, first))


def _without_done(places: tf.Tensor, live: SearchState, state: Any) -> tuple[tf.Tensor, SearchState, Any]:
    """The rows that still run: their places in the batch, what is known of them, and the model's state."""
    left = tf.reshape(tf.where(~live.done), [-1])
    return tf.cond(
        tf.reduce_any(live.done),
        lambda: tf.nest.map_structure(lambda tensor: tf.gather(tensor, left), (places, live, state)),
        lambda: (places, live, state),
    )


def _next_capacity(capacity: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
    return tf.minimum(capacity + tf.maximum(MIN_GROWTH, capacity // 4), limit)


def _grown(rows: SearchState, capacity: tf.Tensor) -> SearchState:
    def pad(history: tf.Tensor) -> tf.Tensor:
        rank = history.shape.rank
        return tf.pad(history, [[0, 0]] * (rank - 1) + [[0, capacity - tf.shape(history)[-1]]])

    return rows._replace(histories=tf.nest.map_structure(pad, rows.histories))


def _any_sizes(tensor: tf.Tensor) -> tf.TensorShape:
    return tf.TensorShape([None] * tensor.shape.rank)


def keep_done(old: SearchState, new: SearchState) -> SearchState:
    """The new rows, but the old ones where they were done already."""

    def choose(before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
        return tf.where(tf.reshape(old.done, [-1] + [1] * (after.shape.rank - 1)), before, after)

    return tf.nest.map_structure(choose, old, new)


def best_hypotheses(rows: SearchState, options: SearchOptions) -> Hypotheses:
    """The finished hypotheses of a beam search, best first, then those that were still alive."""
    values, histories = rows.values, rows.histories
    beams = options.beam_size
    scores = length_scores(values["log_probs"], values["lengths"][:, None], options)
    if options.coverage_penalty:
        scores += coverage_penalty(values["coverage"], options.coverage_penalty)
    alive = values["log_probs"] > NEG_INF / 2
    scores, order = tf.math.top_k(tf.where(alive, scores, NEG_INF), beams)
    finished = values["finished_scores"] > NEG_INF / 2
    count = tf.reduce_sum(tf.cast(finished, tf.int32), axis=1, keepdims=True)
    rank = tf.range(beams)[None]
    places = tf.where(rank < count, rank, beams + rank - count)

    def join(finished: tf.Tensor, alive: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.concat([finished, tf.gather(alive, order, batch_dims=1)], axis=1), places, batch_dims=1)

    lengths = tf.where(alive, values["lengths"][:, None], 0)
    return hypotheses(
        join(histories["finished_ids"], histories["ids"]),
        join(values["finished_lengths"], lengths),
        tf.gather(tf.concat([values["finished_scores"], scores], axis=1), places, batch_dims=1),
        join(values["finished_log_probs"], values["log_probs"]),
        tf.broadcast_to(rank < count, tf.shape(places)),
        options,
        join(values["finished_coverage"], values["coverage"]) if options.track_coverage else None,
    )


def hypotheses(
    ids: tf.Tensor,
    lengths: tf.Tensor,
    scores: tf.Tensor,
    log_probs: tf.Tensor,
    finished: tf.Tensor,
    options: SearchOptions,
    coverage: tf.Tensor | None = None,
) -> Hypotheses:
    """Hypotheses padded after their ends, truncated to the longest; the score of those that do not exist is -inf."""
    longest = tf.reduce_max(tf.pad(tf.reshape(lengths, [-1]), [[0, 1]]))  # 0 of an empty batch
    ids = ids[:, :, :longest]
    ids = tf.where(tf.range(longest) < lengths[..., None], ids, options.pad_id)
    exists = lengths > 0
    scores, log_probs = (tf.where(exists, values, -float("inf")) for values in (scores, log_probs))
    return Hypotheses(ids, lengths, scores, log_probs, finished, coverage)
