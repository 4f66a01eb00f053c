"""A watch over calls that need all workers: a worker that is gone ends the others with a message, not a wait."""

import contextlib
import faulthandler
import logging
import os
import sys
import threading
import time

logger = logging.getLogger(__name__)

LOST_WORKER = 76
"""Exit code where another worker no longer answers."""

FIRST_CALL = 5
"""The first call may take this many times the limit: workers compile for different lengths of time."""


class WorkerWatch:
    """Ends the process when a call within `with watch:` takes longer than the limit.

    A collective operation that waits for a worker that will never answer cannot be interrupted from Python, so the
    process ends there and then. Checkpoints are whole at any moment; the same command goes on from the last one.

    Args:
        seconds: the limit for one call.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._until: float | None = None
        self._warm = False
        self._thread = threading.Thread(target=self._watch, daemon=True, name="worker watch")
        self._thread.start()

    def __enter__(self) -> "WorkerWatch":
        self._until = time.monotonic() + self.seconds * (1 if self._warm else FIRST_CALL)
        return self

    def __exit__(self, *_) -> None:
        self._until, self._warm = None, True

    def _watch(self) -> None:
        while True:
            time.sleep(min(1.0, self.seconds / 4))
            until = self._until
            if until is not None and time.monotonic() > until:
                sys.stderr.write(f"\n{lost_worker_message('no answer in time, see --worker-timeout')}\n")
                sys.stderr.flush()
                os._exit(LOST_WORKER)


@contextlib.contextmanager
def meeting(workers: int, seconds: float):
    """Ends the process, with exit code 1, where the workers have not found each other in time.

    TensorFlow waits for them without letting go of Python's lock, for ever, and no thread of Python's can end that: not
    the watch, only `faulthandler`, whose thread needs no lock and knows no other exit code.
    """
    logger.info("Waiting for all %d workers of TF_CONFIG, for %.0f s at most.", workers, seconds)
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def lost_worker_message(reason: str) -> str:
    return (
        f"A worker was lost ({reason}). All workers stop here. Start all of them again with the same command: they go "
        "on from the last checkpoint."
    )
