"""A search over any number of rows, some rows at a time, so that its memory has a bound.

Rows are sorted by length: little of a chunk is padding, and one long sentence does not stretch many short ones.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tf_transformer.decoding.options import Hypotheses

MAX_TOKENS, MAX_ROWS = 4096, 64
"""Of the source, with its padding, and sentences, in one chunk."""

Rows = dict[str, tf.Tensor]


def search_in_chunks(search: Callable[[Rows], Hypotheses], rows: Rows, beams: int) -> Hypotheses:
    """The hypotheses that `search` finds for all rows, in their order.

    Args:
        search: from some of the rows to their hypotheses.
        rows: tensors whose first axis is the batch. "lengths" (N,) are those of "source" (N, S), which is cut to the
            longest of a chunk; "max_lengths" (N,) are the outputs'.
        beams: K of the hypotheses.
    """
    widest = tf.reduce_max(tf.pad(rows["max_lengths"], [[0, 1]]))

    def found_in(some, longest):
        found = search(some | {"source": some["source"][:, :longest]})
        return found._replace(ids=tf.pad(found.ids, [[0, 0], [0, 0], [0, widest - tf.shape(found.ids)[2]]]))

    kinds = tf.int32, tf.int32, tf.float32, tf.float32, tf.bool
    specs = Hypotheses(*(tf.TensorSpec([None, beams], kind) for kind in kinds))
    found = in_chunks(found_in, rows, specs._replace(ids=tf.TensorSpec([None, beams, None], tf.int32)))
    found = Hypotheses(*found)
    return found._replace(ids=found.ids[:, :, : tf.reduce_max(tf.pad(tf.reshape(found.lengths, [-1]), [[0, 1]]))])


def in_chunks(
    compute: Callable[[Rows, tf.Tensor], Sequence[tf.Tensor]], rows: Rows, specs: Sequence[tf.TensorSpec]
) -> list[tf.Tensor]:
    """What `compute` gives for all rows, in their order.

    Args:
        compute: takes some of the rows and the largest of their lengths.
        rows: tensors whose first axis is the batch; chunks are made by "lengths" (N,).
        specs: of the results of `compute`, whose first axis is the batch too.
    """
    lengths = rows["lengths"]
    count = tf.shape(lengths)[0]
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)

    def longest_and_last(first):
        longest = tf.reduce_max(tf.pad(tf.gather(lengths, order[first : first + 1]), [[0, 1]]))
        return longest, first + tf.clip_by_value(MAX_TOKENS // tf.maximum(longest, 1), 1, MAX_ROWS)

    def chunk(first, number, arrays):
        longest, last = longest_and_last(first)
        found = compute({name: tf.gather(tensor, order[first:last]) for name, tensor in rows.items()}, longest)
        return last, number + 1, [array.write(number, value) for array, value in zip(arrays, found)]

    # At least one chunk, be it empty: the shapes of the results come from it. They are counted first, because arrays
    # that grow need a server of 2.13 or later.
    def unfinished(first, *_):
        return first < tf.maximum(count, 1)

    _, chunks = tf.while_loop(unfinished, lambda first, number: (longest_and_last(first)[1], number + 1), (0, 0))
    arrays = [tf.TensorArray(s.dtype, size=chunks, infer_shape=False, element_shape=s.shape) for s in specs]
    _, _, arrays = tf.while_loop(unfinished, chunk, (0, 0, arrays), parallel_iterations=1)
    back = tf.argsort(order)
    return [tf.gather(array.concat(), back) for array in arrays]
