"""From what a search kept to the hypotheses it returns."""

import tensorflow as tf

from tf_transformer.decoding.blocks import Rows
from tf_transformer.decoding.options import DEAD, Hypotheses, SearchOptions
from tf_transformer.decoding.penalties import coverage_penalty, length_penalty


def best_hypotheses(rows: Rows, options: SearchOptions) -> Hypotheses:
    """The finished hypotheses of a beam search, best first, then those that were still alive."""
    values, histories = rows.values, rows.histories
    beams = options.beam_size
    scores = values["log_probs"] / length_penalty(values["lengths"], options.alpha)[:, None]
    if options.coverage_penalty:
        scores += coverage_penalty(values["coverage"], options.coverage_penalty)
    alive = values["log_probs"] > DEAD / 2
    scores, order = tf.math.top_k(tf.where(alive, scores, DEAD), beams)
    finished = values["finished_scores"] > DEAD / 2
    count = tf.reduce_sum(tf.cast(finished, tf.int32), axis=1, keepdims=True)
    rank = tf.range(beams)[None]
    places = tf.where(rank < count, rank, beams + rank - count)

    def join(done, living):
        return tf.gather(tf.concat([done, tf.gather(living, order, batch_dims=1)], axis=1), places, batch_dims=1)

    lengths = tf.where(alive, values["lengths"][:, None], 0)
    return hypotheses(
        join(histories["finished_ids"], histories["ids"]),
        join(values["finished_lengths"], lengths),
        tf.gather(tf.concat([values["finished_scores"], scores], axis=1), places, batch_dims=1),
        join(values["finished_log_probs"], values["log_probs"]),
        tf.broadcast_to(rank < count, tf.shape(places)),
        options,
    )


def hypotheses(ids, lengths, scores, log_probs, finished, options: SearchOptions) -> Hypotheses:
    """Hypotheses with padding behind their ends, cut to the longest, and -inf for the score of those that are none."""
    longest = tf.reduce_max(tf.pad(tf.reshape(lengths, [-1]), [[0, 1]]))  # 0 of an empty batch
    ids = ids[:, :, :longest]
    ids = tf.where(tf.range(longest) < lengths[..., None], ids, options.pad_id)
    exists = lengths > 0
    return Hypotheses(
        ids, lengths, tf.where(exists, scores, -float("inf")), tf.where(exists, log_probs, -float("inf")), finished
    )
