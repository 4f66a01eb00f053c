"""Progress of long operations: a bar on a terminal, plain lines with rate and time left elsewhere."""

import logging
import sys
import time

from tqdm import tqdm

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Progress display on stderr. Used as a context manager, it ends with a line about the whole.

    Args:
        what: what is being done, such as "encoding".
        total: how many there are to do; None if that is not known.
        unit: what is counted.
        initial: how many were done before, by a run that is resumed.

    Attributes:
        done: how many are done.
    """

    def __init__(self, what: str, total: int | None, unit: str = "pairs", initial: int = 0) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._initial = self.done = initial
        self._started = self._last_line = time.monotonic()
        self._bar = None
        if sys.stderr.isatty():
            scaled = total is None or total > 100_000
            self._bar = tqdm(
                desc=what, total=total, initial=initial, unit=f" {unit}", unit_scale=scaled, file=sys.stderr
            )

    def update(self, count: int, note: str = "") -> None:
        """Count `count` more as done.

        Args:
            note: what to show instead of the rate, such as the loss.
        """
        self.done += count
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(count)
        elif time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            logger.info(self._line(note))

    def write(self, message: str) -> None:
        """Write a line of its own, above the bar."""
        if self._bar is not None:
            self._bar.write(message, file=sys.stderr)
        else:
            logger.info("%s", message)

    def close(self) -> None:
        """End the display without a closing line."""
        if self._bar is not None:
            self._bar.close()

    def _line(self, note: str = "") -> str:
        rate = (self.done - self._initial) / max(time.monotonic() - self._started, 1e-9)
        shown = note or f"{rate:,.0f}/s"
        if self._total is None:
            unit = self._unit.removesuffix("s") if self.done == 1 else self._unit
            return f"{self._what}: {self.done:,} {unit}, {shown}"
        left = duration(max(self._total - self.done, 0) / max(rate, 1e-9))
        return f"{self._what}: {self.done:,} of {self._total:,} {self._unit}, {shown}, {left} left"

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if self._bar is None and kind is None:
            self._total = None
            logger.info("%s in %s", self._line(), duration(time.monotonic() - self._started))


def duration(seconds: float) -> str:
    """1 h 02 min, 3 min 20 s, 45 s, or 0.4 s."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
