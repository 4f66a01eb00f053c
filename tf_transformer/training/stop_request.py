"""A request to stop, from the operating system or the keyboard, that is answered between steps."""

import logging
import signal
import threading

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Within `with`, SIGTERM and Ctrl-C set `signal` instead of ending the process; the second Ctrl-C ends it."""

    def __init__(self):
        self.signal: int | None = None
        self._earlier = {}

    @property
    def requested(self) -> bool:
        return self.signal is not None

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._earlier = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)

    def _hear(self, number, _frame) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
        logger.info("%s: saving after this step, then stopping.", signal.Signals(number).name)
