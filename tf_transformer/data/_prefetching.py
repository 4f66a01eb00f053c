"""Prefetching: an iterator that a thread runs some items ahead of its reader."""

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

Item = TypeVar("Item")

_END = object()


def prefetch(items: Iterator[Item], size: int) -> Iterator[Item]:
    """The items, made by a thread up to `size` ahead; errors come out where the item would have.

    The thread ends when the reader closes or forgets the iterator.
    """
    if size < 1:
        yield from items
        return
    ready: queue.Queue = queue.Queue(size)
    stop = threading.Event()
    thread = threading.Thread(target=_produce, args=(items, ready, stop), daemon=True, name="prefetch")
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        stop.set()
        thread.join()


def _produce(items: Iterator, ready: queue.Queue, stop: threading.Event) -> None:
    try:
        for item in items:
            if not _put(ready, (item, None), stop):
                return
        _put(ready, (_END, None), stop)
    except BaseException as error:
        _put(ready, (None, error), stop)


def _put(ready: queue.Queue, entry: tuple, stop: threading.Event) -> bool:
    """Puts an entry unless the reader has gone; waiting is cut into short parts so that it notices."""
    while not stop.is_set():
        try:
            ready.put(entry, timeout=0.1)
            return True
        except queue.Full:
            continue
    return False
