"""Progress of long work: a bar on a terminal, plain lines with rate and time left elsewhere."""

import logging
import sys
import time

from tqdm import tqdm

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Counts what is done of `total` (None: unknown) and shows it. Used as a context manager.

    Args:
        what: what is being done, such as "encoding".
        total: how many there are to do.
        unit: what they are.
    """

    def __init__(self, what: str, total: int | None, unit: str = "pairs"):
        self._what, self._total, self._unit = what, total, unit
        self._done = 0
        self._begun = self._told = time.monotonic()
        self._bar = None
        if sys.stderr.isatty():
            self._bar = tqdm(desc=what, total=total, unit=f" {unit}", unit_scale=True, file=sys.stderr)

    def update(self, count: int) -> None:
        self._done += count
        if self._bar is not None:
            self._bar.update(count)
        elif time.monotonic() - self._told >= SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            logger.info(self._line())

    def _line(self) -> str:
        rate = self._done / max(time.monotonic() - self._begun, 1e-9)
        if self._total is None:
            return f"{self._what}: {self._done:,} {self._unit}, {rate:,.0f}/s"
        left = max(self._total - self._done, 0) / max(rate, 1e-9)
        return f"{self._what}: {self._done:,} of {self._total:,} {self._unit}, {rate:,.0f}/s, {left:,.0f} s left"

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind, *_) -> None:
        if self._bar is not None:
            self._bar.close()
        elif kind is None:
            self._total = None
            logger.info("%s in %.1f s", self._line(), time.monotonic() - self._begun)
