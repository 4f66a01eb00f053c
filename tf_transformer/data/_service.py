"""Reading a dataset through a tf.data service: every element once and in order, or an error.

The workers of the service share the elements by number, and the trainer reads from them in turn ("coordinated reads"),
which gives the order of the dataset itself. A worker that is lost or restarted breaks that order; the numbers show it,
and the reader fails instead of training on a wrong batch. Opened again from the last position, it loses nothing.
"""

import socket
import urllib.parse
import uuid

import tensorflow as tf


class DataServiceError(ValueError):
    """A tf.data service that cannot be reached."""


def check_service(address: str, seconds: float = 10.0) -> None:
    """Raises DataServiceError where nothing answers at the address of the dispatcher."""
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


def from_service(dataset: tf.data.Dataset, address: str) -> tf.data.Dataset:
    """The elements of `dataset`, made by a tf.data service.

    Args:
        dataset: of (number, element), endless, sharded by `tf.data.experimental.SHARD_HINT`.
        address: of the dispatcher, "grpc://HOST:PORT". It must know its workers: `DispatcherConfig(worker_addresses=…)`.
    """
    check_service(address)
    service = tf.data.experimental.service
    dataset = dataset.apply(
        service.distribute(
            service.ShardingPolicy.HINT, address, job_name=uuid.uuid4().hex, consumer_index=0, num_consumers=1
        )
    )
    return dataset.enumerate().map(lambda expected, item: _checked(expected, *item, address)).prefetch(2)


def _checked(expected: tf.Tensor, number: tf.Tensor, element, address: str):
    received = tf.strings.join(["Expected batch ", tf.as_string(expected), f" from the tf.data service at {address}. "
                                "Received: batch ", tf.as_string(number), "; a worker was lost or restarted."])  # fmt: skip
    with tf.control_dependencies([tf.debugging.Assert(number == expected, [received])]):
        return tf.nest.map_structure(tf.identity, element)
