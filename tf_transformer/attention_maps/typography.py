"""Letters in the pictures: sizes, and fonts for the scripts of the tokens."""

import functools
import unicodedata
from collections.abc import Iterable

from matplotlib import font_manager

SMALL = 8.0

# matplotlib's own font has Latin, Greek, Cyrillic, Hebrew, Arabic and Georgian; for the rest, what the system has.
_MORE = (
    "Noto Sans CJK",
    "Noto Sans",
    "WenQuanYi",
    "Hiragino",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun",
    "Arial Unicode",
)


@functools.cache
def font() -> list[str]:
    """The fonts to try for a token, in order; only ones that are installed, so that matplotlib warns of nothing."""
    installed = font_manager.get_font_names()
    more = [name for start in _MORE for name in sorted(installed) if name.startswith(start)]
    return ["DejaVu Sans", *dict.fromkeys(more)]


def token_size(cell: float) -> float:
    """The size in points of tokens that stand `cell` inches apart."""
    return max(3.0, min(SMALL, cell * 72 * 0.8))


def text_width(tokens: Iterable[str], size: float) -> float:
    """About how many inches the longest token takes at `size` points; wide scripts count double."""
    letters = max(sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in token) for token in tokens)
    return letters * size * 0.62 / 72
