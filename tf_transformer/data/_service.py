"""Reading a dataset through a tf.data service: every element once and in order, or an error.

The workers of the service share the elements by number, and the trainer reads from them in turn ("coordinated reads"),
so that each round of reads has the next elements, one from every worker. Sorted by number they have the order of the
dataset itself. A worker that is lost or restarted breaks that order; the numbers show it, and reading fails instead of
training on a wrong batch. Opened again from the last position, nothing is lost or repeated.
"""

import concurrent.futures
import socket
import threading
import urllib.parse
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

WORKER_SECONDS = 60.0

_Result = TypeVar("_Result")


class DataServiceError(ValueError):
    """A tf.data service that cannot be reached."""


def check_service(address: str, seconds: float = 10.0) -> None:
    """Raise DataServiceError if the dispatcher does not respond at its address."""
    parsed = urllib.parse.urlparse(address)
    if parsed.scheme != "grpc" or not parsed.hostname or not parsed.port:
        raise DataServiceError(f"Expected a tf.data service as grpc://HOST:PORT. Received: {address!r}.")
    try:
        socket.create_connection((parsed.hostname, parsed.port), timeout=seconds).close()
    except OSError as error:
        raise DataServiceError(
            f"Expected the dispatcher of a tf.data service at {address}. Received: {error}; start it, or train without "
            "--data-service. Nothing is lost: the same command resumes."
        ) from None


def call_within(seconds: float, call: Callable[[], _Result]) -> _Result:
    """The result of a call that may block forever inside TensorFlow, or TimeoutError after `seconds`.

    A read from a tf.data service whose workers are all lost waits for them without end and cannot be interrupted. The
    call runs in a daemon thread, which a timeout leaves behind.
    """
    future: concurrent.futures.Future[_Result] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="tf.data service", daemon=True).start()
    return future.result(timeout=seconds)


def from_service(dataset: tf.data.Dataset, address: str) -> tf.data.Dataset:
    """The elements of `dataset`, made by a tf.data service.

    Args:
        dataset: of (number, element), endless, sharded by `tf.data.experimental.SHARD_HINT`.
        address: of the dispatcher, "grpc://HOST:PORT", which knows its workers: `DispatcherConfig(worker_addresses=…)`.
    """
    check_service(address)
    workers = _wait_for_workers(address)
    service = tf.data.experimental.service
    reads = service.distribute(
        service.ShardingPolicy.HINT, address, job_name=uuid.uuid4().hex, consumer_index=0, num_consumers=1
    )
    rounds = dataset.apply(reads).window(workers, drop_remainder=True)
    ordered = rounds.flat_map(lambda numbers, elements: _by_number(numbers, elements, workers))
    return ordered.enumerate().map(lambda expected, item: _checked(expected, item[0], item[1], address)).prefetch(2)


def _wait_for_workers(address: str) -> int:
    """Wait until all workers of the dispatcher respond; return their number."""
    seen: set[tuple[int, int]] = set()
    try:
        return call_within(WORKER_SECONDS, lambda: _count_workers(address, seen))
    except TimeoutError:
        expected = (seen and f"{next(iter(seen))[1]} workers") or "the workers"
        raise DataServiceError(
            f"Expected {expected} of the tf.data service at {address}. Received: responses of {len(seen)} "
            f"within {WORKER_SECONDS:.0f} s. Start the others."
        ) from None
    except tf.errors.OpError as error:
        raise DataServiceError(
            f"Expected a tf.data service at {address} whose dispatcher knows its workers, by "
            f"DispatcherConfig(worker_addresses=[...]). Received: {error.message.splitlines()[0]}"
        ) from None


def _count_workers(address: str, seen: set[tuple[int, int]]) -> int:
    """The number of workers, once each has responded; `seen` has (worker, number of workers) of those that have.

    Of the numbers from 0 on, each worker has those at a distance of the number of workers.
    """
    hint, service = tf.data.experimental.SHARD_HINT, tf.data.experimental.service
    numbers = tf.data.Dataset.range(2**62).shard(hint, hint).batch(2)
    for first, second in numbers.apply(service.distribute(service.ShardingPolicy.HINT, address)).as_numpy_iterator():
        workers = int(second - first)
        seen.add((int(first) % workers, workers))
        if len(seen) == workers:
            return workers
    raise AssertionError("the numbers do not end")


def _by_number(numbers: tf.data.Dataset, elements: Any, workers: int) -> tf.data.Dataset:
    """The elements of a round, one from every worker, in the order of their numbers."""
    round_ = tf.data.Dataset.zip((numbers, tf.data.Dataset.zip(elements)))
    in_turn = tf.data.Dataset.range(workers)
    return in_turn.flat_map(lambda turn: round_.filter(lambda number, _: number % workers == turn))


def _checked(expected: tf.Tensor, number: tf.Tensor, element: Any, address: str) -> Any:
    wanted = tf.strings.format(f"Expected batch {{}} from the tf.data service at {address}. ", expected)
    received = tf.strings.format("Received: batch {}; a worker was lost or restarted.", number)
    with tf.control_dependencies([tf.debugging.Assert(number == expected, [wanted + received])]):
        return tf.nest.map_structure(tf.identity, element)
