"""Batches of texts of similar length: less padding, and the results in the order of the texts."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MAX_ROWS = 64
# Bytes of a batch with its padding. Beyond so many of one text the model reads nothing: its source is cut.
MAX_BATCH_BYTES = 16_384
_MAX_TEXT_BYTES = 2048
# Fewer rows than this are not divided among threads: the products would be too thin.
_MIN_ROWS = 8


def length_batches(
    lengths: Sequence[int], max_rows: int = MAX_ROWS, max_bytes: int = MAX_BATCH_BYTES
) -> list[list[int]]:
    """Indices of texts in batches, the longest first: what does not fit into memory fails at once, not at the end.

    Args:
        lengths: of the texts, in bytes.
        max_rows: texts in a batch.
        max_bytes: number of texts in a batch by the length of its longest; one text always fits.
    """
    batches, room = [], 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if not batches or len(batches[-1]) >= room:
            batches.append([])
            longest = min(max(lengths[index], 1), _MAX_TEXT_BYTES)
            room = max(1, min(max_rows, max_bytes // longest))
        batches[-1].append(index)
    return batches


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
        done: told the number of texts after each batch.
    """
    results: list[Any] = [None] * len(texts[0])
    share = max(_MIN_ROWS, -(-len(results) // threads))
    batches = length_batches([max(map(len, row)) for row in zip(*texts)], min(max_rows, share))

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
