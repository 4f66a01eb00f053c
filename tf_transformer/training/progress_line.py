"""How far a run is: a line that rewrites itself on a terminal, plain lines now and then elsewhere."""

import logging
import sys
import time

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 10.0

logger = logging.getLogger(__name__)


class ProgressLine:
    """Shows step, loss, tokens a second and the time that is left.

    Args:
        step: where the run begins or goes on.
        max_steps: where it ends.
    """

    def __init__(self, step: int, max_steps: int):
        self._first, self._last = step, max_steps
        self._begun = self._told = time.monotonic()
        self._bar = None
        if sys.stderr.isatty():
            self._bar = tqdm(total=max_steps, initial=step, unit=" steps", desc="training", file=sys.stderr)

    def update(self, step: int, loss: float, tokens_per_second: float) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss {loss:.3f}, {tokens_per_second:,.0f} tokens/s", refresh=False)
            self._bar.update(step - self._bar.n)
        elif time.monotonic() - self._told >= SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            left = (self._told - self._begun) / max(step - self._first, 1) * (self._last - step)
            logger.info(
                "step %d of %d, loss %.3f, %.0f tokens/s, %s left", step, self._last, loss, tokens_per_second,
                duration(left),
            )  # fmt: skip

    def say(self, message: str) -> None:
        """A line of its own, above the bar."""
        if self._bar is not None:
            self._bar.write(message, file=sys.stderr)
        else:
            logger.info("%s", message)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def duration(seconds: float) -> str:
    """1 h 02 min, 3 min 20 s, or 45 s."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
