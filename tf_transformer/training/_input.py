"""Distributed input of training: batches for every replica of this worker, starting at a position."""

import logging
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_transformer.data import DataServiceError, Position, call_within, failed_assertion

logger = logging.getLogger(__name__)

SERVICE_SECONDS = 600.0
"""Seconds that a tf.data service may fail to return the next batch before the run ends."""
_PAUSE = 1.0


class DistributedBatches:
    """Batches of a dataset under a strategy, and the position after those that were taken.

    Args:
        strategy: the `tf.distribute.Strategy`.
        dataset: makes the dataset of an input pipeline, with one element per replica, from a position on. Elements
            carry the `position` after them.
        position: of the first batch; None for the beginning.
        service: address of the tf.data service that the dataset reads from, or None. If it loses a worker, the dataset
            is made again from the last position.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        dataset: Callable[[tf.distribute.InputContext, Position], tf.data.Dataset],
        position: Position | None = None,
        service: str | None = None,
    ):
        self._strategy, self._dataset, self.service = strategy, dataset, service
        self.position = position or Position()
        self.iterator = self._open()

    def _open(self) -> Any:
        position, options = self.position, tf.data.Options()
        # The thread that tunes a dataset sleeps for as long as it has run, up to a minute, and an iterator that is
        # deleted may have to wait for it.
        options.autotune.enabled = False

        def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            return self._dataset(context, position).with_options(options)

        return iter(self._strategy.distribute_datasets_from_function(dataset))

    def next(self) -> dict[str, Any]:
        """The next batch, with the values of each replica of this worker."""
        until = time.monotonic() + SERVICE_SECONDS
        while True:
            try:
                batch, position = take_position(self._strategy, self._get_next(until))
                self.position = Position(*position.numpy().tolist())
                return batch
            except tf.errors.OpError as error:
                if self.service is None:
                    raise
                self._recover(error, until)

    def _get_next(self, until: float) -> dict[str, Any]:
        if self.service is None:
            return self.iterator.get_next()
        try:
            return call_within(until - time.monotonic(), self.iterator.get_next)
        except TimeoutError:
            raise self._lost("no batch; its workers do not respond.") from None

    def _recover(self, error: Exception, until: float) -> None:
        """Open the dataset again, retrying until the deadline: a restarted service takes a moment to respond."""
        logger.warning("%s Reading again from %s.", _first_line(error), tuple(self.position))
        while True:
            try:
                time.sleep(_PAUSE)
                self.iterator = self._open()
                return
            except (DataServiceError, tf.errors.OpError) as again:
                error = again
            if time.monotonic() > until:
                raise self._lost(_first_line(error)) from error

    def _lost(self, received: str) -> DataServiceError:
        return DataServiceError(
            f"Expected the next batch from the tf.data service at {self.service} within {SERVICE_SECONDS:.0f} s. "
            f"Received: {received} Start the service again, or train without --data-service. The same command resumes "
            "from the last checkpoint."
        )


def take_position(strategy: tf.distribute.Strategy, batch: dict) -> tuple[dict, tf.Tensor]:
    """A batch without its position, and the position, which is the same on all replicas."""
    position = strategy.experimental_local_results(batch["position"])[0]
    return {name: value for name, value in batch.items() if name != "position"}, position


def _first_line(error: Exception) -> str:
    message = failed_assertion(error) if isinstance(error, tf.errors.OpError) else None
    return message or str(error).splitlines()[0][:400]
