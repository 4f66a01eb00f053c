"""A function in a process of its own: TensorFlow's threads and memory are set per process, and freed with it.

Translation is fastest with one thread per operation and one batch per core, training with all threads per operation.
On a GPU the memory of the teacher is free again when its process has ended.
"""

import multiprocessing
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

from tf_transformer._processes import end_with_parent
from tf_transformer._startup_messages import suppress_startup_messages

_POLL_SECONDS = 0.2
_PROGRESS, _RESULT, _ERROR = "progress", "result", "error"


class StopFlag(Protocol):
    """Whether the user has requested this process to stop."""

    @property
    def requested(self) -> bool: ...


class StoppedError(Exception):
    """The child process was ended because a stop was requested."""


def run_in_child(
    function: Callable[..., Any], *arguments: Any, stop: StopFlag, progress: Callable[[int], None] | None = None
) -> Any:
    """Call `function(*arguments, report)` in a new process and return its result; its errors are raised here.

    The process ends with this one, even if this one is killed, and if a stop is requested (StoppedError).

    Args:
        function: of a module, so that the other process can import it; `report(count)` calls `progress` here.
        arguments: anything that can be pickled.
        stop: called several times per second.
        progress: called with the numbers that the function reports.
    """
    context = multiprocessing.get_context("spawn")  # not forked: TensorFlow's threads may be running here
    receiving, sending = context.Pipe(duplex=False)
    # Pickled here and not with the process, so that it silences TensorFlow before `function` imports it.
    work = pickle.dumps((function, arguments))
    process = context.Process(target=_main, args=(sending, work), daemon=True)
    process.start()
    sending.close()
    try:
        return _follow(receiving, stop, progress or (lambda count: None))
    except EOFError:
        process.join()
        raise ValueError(
            f"Expected the process of {function.__name__} to finish. Received: exit code {process.exitcode}. Is there "
            "enough memory? The same command resumes. In a script of your own, start it under "
            "`if __name__ == '__main__':`."
        ) from None
    finally:
        if process.is_alive():
            process.terminate()
        process.join()


def _follow(receiving: Connection, stop: StopFlag, progress: Callable[[int], None]) -> Any:
    while True:
        if stop.requested:
            raise StoppedError
        if not receiving.poll(_POLL_SECONDS):
            continue
        kind, value = receiving.recv()
        if kind == _RESULT:
            return value
        if kind == _ERROR:
            raise value
        progress(value)


def _main(sending: Connection, work: bytes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=end_with_parent, daemon=True).start()
    suppress_startup_messages()
    try:
        function, arguments = pickle.loads(work)
        result = function(*arguments, lambda count: sending.send((_PROGRESS, count)))
    except (ValueError, OSError) as error:
        sending.send((_ERROR, error))
    except Exception as error:  # the traceback is lost with this process: it becomes the message
        sending.send((_ERROR, RuntimeError("".join(traceback.format_exception(error)))))
    else:
        sending.send((_RESULT, result))
    sending.close()
