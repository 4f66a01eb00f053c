"""Paths through a step function that do not branch: what greedy search and sampling have in common."""

import tensorflow as tf

from tf_transformer.decoding.blocks import Rows, keep_done, run_in_blocks
from tf_transformer.decoding.options import DEAD, Hypotheses, SearchOptions, Step
from tf_transformer.decoding.penalties import coverage_penalty, length_penalty
from tf_transformer.decoding.results import hypotheses


def follow_paths(step_fn, state, rows: Rows, choose, options: SearchOptions, grow) -> Hypotheses:
    """The paths that `choose` takes from `first_paths`, each until END or its longest length.

    choose: (logits (B, K, V), index, values, history (B, K, C)) -> log-probability and id of the next step,
        (B, K) each; a log-probability of DEAD ends the path with nothing.
    """

    def advance(index, rows, state):
        return _advance(step_fn, index, rows, state, choose, options)

    rows = run_in_blocks(advance, rows, state, tf.reduce_max(rows.values["max_lengths"]), grow)
    values = rows.values
    scores = values["log_probs"] / length_penalty(values["lengths"], options.alpha)
    if options.coverage_penalty:
        scores += coverage_penalty(values["coverage"], options.coverage_penalty)
    return hypotheses(rows.histories["ids"], values["lengths"], scores, values["log_probs"], values["ended"], options)


def first_paths(start_ids, max_lengths, paths, options, prefix=None, prefix_lengths=None, source_length=None) -> Rows:
    """`paths` hypotheses a row that hold nothing yet."""
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
    return Rows(max_lengths <= 0, values, histories)


def _advance(step_fn, index, rows, state, choose, options):
    values, ids = dict(rows.values), rows.histories["ids"]
    shape = tf.shape(ids)
    own = tf.broadcast_to(tf.range(shape[1])[None, :, None], shape)
    result = step_fn(Step(values["tokens"], index, own), state)
    log_probs, tokens = choose(result.logits, index, values, ids)
    possible = log_probs > DEAD / 2
    open_before = ~values["ended"] & (values["lengths"] == index)
    grows = open_before & possible
    values["log_probs"] = tf.where(grows, values["log_probs"] + log_probs, values["log_probs"])
    values["lengths"] = tf.where(grows, index + 1, tf.where(open_before, 0, values["lengths"]))
    values["ended"] |= grows & (tokens == options.end_id)
    values["tokens"] = tokens
    if options.coverage_penalty:
        values["coverage"] += tf.where(grows[..., None], result.attention, 0.0)
    ids = tf.where(tf.range(shape[2]) == index, tokens[..., None], ids)
    closed = values["ended"] | (values["lengths"] <= index)
    done = tf.reduce_all(closed, axis=1) | (index + 1 >= values["max_lengths"])
    return keep_done(rows, Rows(done, values, {"ids": ids})), result.state
