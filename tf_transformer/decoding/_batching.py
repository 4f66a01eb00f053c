"""Batching for search: sorted by length, bounded in tokens, in the graph and in Python.

Rows are sorted by length: little of a batch is padding, and one long sentence does not stretch many short ones.

Many operations of a search are too small to be divided; while one thread does them, the other has nothing to do. So a
process that translates many texts gives each operation one thread, and each thread a batch of its own.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tensorflow as tf

from tf_transformer.decoding._options import Hypotheses

MAX_TOKENS, MAX_ROWS = 4096, 64
"""Limits of one batch: tokens of the source, with padding, and sentences."""

Batch = dict[str, tf.Tensor]
"""Tensors by name, whose first axis is the batch."""


def search_in_batches(
    search: Callable[[Batch], tuple[Hypotheses, tf.Tensor]], rows: Batch, beams: int
) -> tuple[Hypotheses, tf.Tensor]:
    """Call `search` on batches of similar length, in the graph; return all its results in the order of the rows.

    Args:
        search: from some of the rows to their hypotheses, whose coverage is left out here, and a number for each row,
            (N,) int32.
        rows: tensors whose first axis is the batch. "lengths" (N,) are those of "source" (N, S), which is truncated to
            the longest of a batch; "max_lengths" (N,) are the outputs'.
        beams: K of the hypotheses.
    """
    widest = tf.reduce_max(tf.pad(rows["max_lengths"], [[0, 1]]))

    def found_in(some: Batch, longest: tf.Tensor) -> list[tf.Tensor]:
        found, numbers = search(some | {"source": some["source"][:, :longest]})
        ids = tf.pad(found.ids, [[0, 0], [0, 0], [0, widest - tf.shape(found.ids)[2]]])
        return [ids, found.lengths, found.scores, found.log_probs, found.finished, numbers]

    kinds = tf.int32, tf.int32, tf.float32, tf.float32, tf.bool
    specs = [tf.TensorSpec([None, beams], kind) for kind in kinds] + [tf.TensorSpec([None], tf.int32)]
    specs[0] = tf.TensorSpec([None, beams, None], tf.int32)
    *columns, numbers = map_batches(found_in, rows, specs)
    found = Hypotheses(*columns)
    longest = tf.reduce_max(tf.pad(tf.reshape(found.lengths, [-1]), [[0, 1]]))
    return found._replace(ids=found.ids[:, :, :longest]), numbers


def map_batches(
    compute: Callable[[Batch, tf.Tensor], Sequence[tf.Tensor]], rows: Batch, specs: Sequence[tf.TensorSpec]
) -> list[tf.Tensor]:
    """Call `compute` on batches of similar length, in the graph; return all results in the order of the rows.

    Args:
        compute: takes some of the rows and the largest of their lengths.
        rows: tensors whose first axis is the batch; "lengths" (N,) decides which rows share one.
        specs: of the results of `compute`, whose first axis is the batch too.
    """
    lengths = rows["lengths"]
    count = tf.shape(lengths)[0]
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)

    def longest_and_last(first: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        longest = tf.reduce_max(tf.pad(tf.gather(lengths, order[first : first + 1]), [[0, 1]]))
        return longest, first + tf.clip_by_value(MAX_TOKENS // tf.maximum(longest, 1), 1, MAX_ROWS)

    def one_batch(first: tf.Tensor, number: tf.Tensor, arrays: list[tf.TensorArray]) -> tuple:
        longest, last = longest_and_last(first)
        found = compute({name: tf.gather(tensor, order[first:last]) for name, tensor in rows.items()}, longest)
        return last, number + 1, [array.write(number, value) for array, value in zip(arrays, found)]

    # At least one batch, possibly empty: the shapes of the results come from it. Batches are counted first, because
    # arrays that grow need a server of 2.13 or later.
    def unfinished(first: tf.Tensor, *_: Any) -> tf.Tensor:
        return first < tf.maximum(count, 1)

    _, batches = tf.while_loop(unfinished, lambda first, number: (longest_and_last(first)[1], number + 1), (0, 0))
    arrays = [tf.TensorArray(s.dtype, size=batches, infer_shape=False, element_shape=s.shape) for s in specs]
    _, _, arrays = tf.while_loop(unfinished, one_batch, (0, 0, arrays), parallel_iterations=1)
    back = tf.argsort(order)
    return [tf.gather(array.concat(), back) for array in arrays]


# Bytes per batch with padding. Texts longer than _MAX_TEXT_BYTES are truncated by the model.
MAX_BATCH_BYTES = 16_384
_MAX_TEXT_BYTES = 2048
# Fewer rows than this are not divided among threads: the products would be too thin.
_MIN_ROWS = 8


def length_batches(lengths: Sequence[int], batch_size: Callable[[int], int]) -> list[list[int]]:
    """Indices of rows in batches of similar length, the longest first: what exceeds the memory fails at the start.

    Args:
        lengths: of the rows.
        batch_size: number of rows in a batch, given the length of the longest; less than one counts as one.
    """
    batches: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if not batches or len(batches[-1]) >= room:
            batches.append([])
            room = batch_size(lengths[index])
        batches[-1].append(index)
    return batches


def text_batch_size(longest: int, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BATCH_BYTES) -> int:
    """Texts in a batch whose longest has so many bytes; beyond a limit the model truncates it."""
    return min(max_rows, max_bytes // min(max(longest, 1), _MAX_TEXT_BYTES))


def in_batches(
    call: Callable[..., Sequence[Any]],
    *texts: Sequence[bytes],
    max_rows: int = MAX_ROWS,
    threads: int = 1,
    done: Callable[[int], None] | None = None,
) -> list[Any]:
    """`call` on all texts, batch by batch; a list of its results in the order of the texts.

    Args:
        call: takes as many lists of texts as there are `texts`, of one length, and returns a result for each row.
        texts: sequences of one length, such as sources and targets.
        max_rows: texts in a batch.
        threads: batches that are computed side by side; few texts are divided so that each thread has some.
        done: called with the number of texts of each batch.
    """
    results: list[Any] = [None] * len(texts[0])
    share = max(_MIN_ROWS, -(-len(results) // threads))
    rows = min(max_rows, share)
    batches = length_batches(
        [max(map(len, row)) for row in zip(*texts)], lambda longest: text_batch_size(longest, rows)
    )

    def compute(batch: list[int]) -> Sequence[Any]:
        return call(*([side[i] for i in batch] for side in texts))

    for batch, found in zip(batches, _in_order(compute, batches, threads)):
        for index, result in zip(batch, found, strict=True):
            results[index] = result
        if done:
            done(len(batch))
    return results


def _in_order(compute: Callable[[list[int]], Sequence[Any]], batches: list[list[int]], threads: int) -> Iterator:
    if threads == 1:
        yield from map(compute, batches)
        return
    with ThreadPoolExecutor(threads) as pool:
        # Where one batch fails, or the caller is interrupted, those that wait are not begun.
        yield from pool.map(compute, batches)


def use_one_thread_per_op() -> None:
    """Make TensorFlow compute each operation on one thread, on machines without a GPU.

    It has to come before TensorFlow first computes; afterwards, or where the number of threads has been set already,
    nothing changes.
    """
    if tf.config.threading.get_intra_op_parallelism_threads() or tf.config.list_physical_devices("GPU"):
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    except RuntimeError:
        return


def parallel_batches() -> int:
    """Number of batches to compute in parallel: one per core if each operation has one thread, otherwise one."""
    if tf.config.threading.get_intra_op_parallelism_threads() != 1 or tf.config.list_physical_devices("GPU"):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
