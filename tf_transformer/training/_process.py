"""Process control: the lock of a work directory, stop signals, and detection of lost workers."""

import contextlib
import faulthandler
import fcntl
import logging
import os
import pathlib
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, TextIO

NAME = ".lock"


class RunLockedError(ValueError):
    """Another process is training in the directory."""


class RunLock:
    """Lock of a work directory, a context manager. The operating system releases it when the process ends."""

    def __init__(self, directory: str | os.PathLike):
        self._file = pathlib.Path(directory) / NAME
        self._stream: TextIO | None = None

    def __enter__(self) -> "RunLock":
        self._file.parent.mkdir(parents=True, exist_ok=True)
        stream = open(self._file, "a+", encoding="utf-8")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            stream.seek(0)
            holder = stream.read().strip() or "another process"
            stream.close()
            raise RunLockedError(
                f"{self._file.parent} is in use: {holder} is training there. Wait for it, stop it, or use another "
                "--workdir."
            ) from error
        stream.truncate(0)
        stream.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        stream.flush()
        self._stream = stream
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()


logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Context manager in which SIGTERM and Ctrl-C only set `signal`; a second Ctrl-C ends the process."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._earlier: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        return self.signal is not None

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._earlier = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
        logger.info("%s: saving after this step, then stopping.", signal.Signals(number).name)


LOST_WORKER = 76
"""Exit code if another worker no longer responds."""

FIRST_CALL = 5
"""Factor of the time limit for the first call, because workers compile for different lengths of time."""


class LostWorkerError(ValueError):
    """Another worker of the run no longer responds."""


class WorkerWatch:
    """Context manager that ends the process if a call takes longer than the limit.

    A collective operation that waits for a lost worker cannot be interrupted from Python, so the process ends
    immediately. Checkpoints are complete at any moment; the same command resumes from the last one.

    Args:
        seconds: time limit per call.
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

    def __exit__(self, *_: object) -> None:
        self._until, self._warm = None, True

    def _watch(self) -> None:
        while True:
            time.sleep(min(1.0, self.seconds / 4))
            until = self._until
            if until is not None and time.monotonic() > until:
                sys.stderr.write(f"\n{lost_worker_message('no response in time, see --worker-timeout')}\n")
                sys.stderr.flush()
                os._exit(LOST_WORKER)


@contextlib.contextmanager
def meeting(workers: int, seconds: float) -> Iterator[None]:
    """Context manager that ends the process with exit code 1 if the workers have not all connected in time.

    TensorFlow waits for them without releasing the GIL, so no Python thread, including `WorkerWatch`, can end the
    process. The thread of `faulthandler` needs no GIL; its exit code cannot be chosen.
    """
    logger.info("Waiting for all %d workers of TF_CONFIG, for %.0f s at most.", workers, seconds)
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def lost_worker_message(reason: str) -> str:
    return (
        f"A worker was lost ({reason}). All workers stop here. Start all of them again with the same command: they "
        "resume from the last checkpoint."
    )
