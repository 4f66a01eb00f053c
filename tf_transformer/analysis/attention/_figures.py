"""Figures of attention maps: heat maps per layer and head, and lines between tokens."""

import functools
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch

from tf_transformer.analysis.attention._maps import KINDS, AttentionMaps

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


COLOURS = "Blues"
_GAP, _TITLE = 0.12, 0.3  # inches between columns, and above each panel


def heatmaps(
    maps: AttentionMaps,
    kind: str = "cross",
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    mean: bool = False,
) -> Figure:
    """A figure of one kind of attention: queries downwards, keys to the right, white is 0 and dark blue is 1.

    Args:
        maps: of one sentence pair.
        kind: "encoder", "decoder" or "cross".
        layers, heads: which ones, counted from 0; None: all. The figure counts from 1, as the paper does.
        mean: whether a last column shows the mean over the chosen heads.

    Example:
        >>> heatmaps(maps, "encoder", layers=[4], heads=[0, 1]).savefig("figure.svg")
    """
    weights = maps.weights(kind)
    layers = chosen("layer", layers, weights.shape[0])
    heads = chosen("head", heads, weights.shape[1])
    grid = _Grid(len(layers), len(heads) + mean, maps.queries(kind), maps.keys(kind))
    for row, layer in enumerate(layers):
        panels = [(f"layer {layer + 1}, head {head + 1}", weights[layer, head]) for head in heads]
        if mean:
            panels.append((f"layer {layer + 1}, mean", weights[layer, heads].mean(axis=0)))
        for column, (title, matrix) in enumerate(panels):
            axis = grid.panel(row, column)
            axis.set_title(title, fontsize=SMALL, pad=3)
            image = axis.imshow(matrix, cmap=COLOURS, vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
            grid.label(axis, row, column)
    grid.finish(image, KINDS[kind].capitalize())
    return grid.figure


def chosen(name: str, wanted: Sequence[int] | None, count: int) -> list[int]:
    """The indices `wanted`, checked; None is all of them."""
    wanted = list(range(count)) if wanted is None else list(wanted)
    wrong = [index + 1 for index in wanted if not 0 <= index < count]
    if wrong or not wanted:
        raise ValueError(f"Expected {name}s from 1 to {count}, which this model has. Received: {wrong or 'none'}.")
    return wanted


class _Grid:
    """Panels of equal size with tokens on the left and at the bottom, placed in inches.

    matplotlib's own layouts measure every label again and again, which takes minutes for a big model.
    """

    def __init__(self, rows: int, columns: int, queries: list[str], keys: list[str]) -> None:
        cell = min(0.2, max(0.02, 24 / max(rows * len(queries), columns * len(keys))))
        self._rows, self._queries, self._keys = rows, queries, keys
        self._text: dict[str, Any] = {"fontsize": token_size(cell), "parse_math": False, "fontfamily": font()}
        self._width, self._height = max(1.0, len(keys) * cell), max(0.6, len(queries) * cell)
        self._left, self._bottom = (text_width(tokens, token_size(cell)) + 0.15 for tokens in (queries, keys))
        right = self._left + columns * self._width + (columns - 1) * _GAP
        top = self._bottom + rows * self._height + (rows - 1) * _TITLE + _TITLE + 0.35
        self._size = right + 0.9, top
        self.figure = Figure(figsize=self._size)
        self._bar = right + 0.2, self._bottom, 0.12, min(3.0, top - self._bottom - _TITLE - 0.35)

    def panel(self, row: int, column: int) -> Axes:
        """The axes of one panel, without ticks."""
        left = self._left + column * (self._width + _GAP)
        bottom = self._bottom + (self._rows - 1 - row) * (self._height + _TITLE)
        axis = self._axes(left, bottom, self._width, self._height)
        axis.set_xticks([])
        axis.set_yticks([])
        return axis

    def label(self, axis: Axes, row: int, column: int) -> None:
        """Write the tokens that the panels of a row or a column share."""
        axis.tick_params(length=0, pad=2)
        if column == 0:
            axis.set_yticks(range(len(self._queries)), self._queries, **self._text)
        if row == self._rows - 1:
            axis.set_xticks(range(len(self._keys)), self._keys, rotation=90, **self._text)

    def finish(self, image: AxesImage, title: str) -> None:
        """Add the color bar and the title."""
        bar = self.figure.colorbar(image, cax=self._axes(*self._bar), label="weight")
        bar.ax.tick_params(labelsize=SMALL - 1)
        bar.ax.yaxis.label.set_fontsize(SMALL)
        self.figure.suptitle(title, fontsize=SMALL + 3, x=self._left / self._size[0], ha="left",
                             y=1 - 0.08 / self._size[1], va="top")  # fmt: skip

    def _axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        across, up = self._size
        return self.figure.add_axes((left / across, bottom / up, width / across, height / up))


# Okabe and Ito's colors, which color-blind readers can tell apart.
HEAD_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#666666")

_STEP = 0.26  # inches from one token to the next
_SPREAD = 0.5  # of a step, that the heads' lines take up
_FAINTEST = 0.02  # lighter lines are not drawn


def lines(
    maps: AttentionMaps,
    kind: str = "encoder",
    layer: int = -1,
    heads: Sequence[int] | None = None,
    query: int | None = None,
) -> Figure:
    """A figure of one layer: queries on the left, keys on the right, a line as strong as the weight between them.

    Args:
        maps: of one sentence pair.
        kind: "encoder", "decoder" or "cross".
        layer: which layer, counted from 0; -1 is the last.
        heads: which heads, counted from 0, each in a color of its own; None: all.
        query: the index of the only token whose lines are drawn, as in the paper's figure 3; None: all tokens.
    """
    weights = maps.weights(kind)
    layer = chosen("layer", [layer % weights.shape[0] if layer < 0 else layer], weights.shape[0])[0]
    heads = chosen("head", heads, weights.shape[1])
    queries, keys = maps.queries(kind), maps.keys(kind)
    rows = range(len(queries)) if query is None else chosen("query token", [query], len(queries))
    figure = Figure(figsize=(4.6, max(len(queries), len(keys)) * _STEP + 1.0), layout="constrained")
    axis = figure.add_subplot()
    for order, head in enumerate(heads):
        # A little beside each other, or heads that look at the same token would hide one another.
        beside = _SPREAD * (order - (len(heads) - 1) / 2) / len(heads)
        axis.add_collection(_lines(weights[layer, head], rows, HEAD_COLOURS[order % len(HEAD_COLOURS)], beside))
    _tokens(axis, queries, keys, set(rows))
    axis.set_title(f"{KINDS[kind].capitalize()}, layer {layer + 1} of {weights.shape[0]}", fontsize=SMALL + 2)
    _legend(axis, heads)
    return figure


def _lines(matrix: np.ndarray, rows: Iterable[int], color: str, beside: float) -> LineCollection:
    pairs = [(row, column) for row in rows for column in range(matrix.shape[1]) if matrix[row, column] >= _FAINTEST]
    strength = [float(min(1.0, matrix[pair])) for pair in pairs]
    segments = [((0.0, row + beside), (1.0, column + beside)) for row, column in pairs]
    widths = [0.4 + 2.2 * weight for weight in strength]
    return LineCollection(segments, colors=color, alpha=strength or None, linewidths=widths, capstyle="round")


def _tokens(axis: Axes, queries: list[str], keys: list[str], looking: set[int]) -> None:
    text: dict[str, Any] = {"fontsize": SMALL, "va": "center", "parse_math": False, "fontfamily": font()}
    for row, token in enumerate(queries):
        axis.text(-0.04, row, token, ha="right", alpha=1.0 if row in looking else 0.35, **text)
    for row, token in enumerate(keys):
        axis.text(1.04, row, token, ha="left", **text)
    axis.set_xlim(-0.75, 1.75)
    axis.set_ylim(max(len(queries), len(keys)) - 0.4, -0.6)
    axis.axis("off")


def _legend(axis: Axes, heads: list[int]) -> None:
    patches = [
        Patch(color=HEAD_COLOURS[order % len(HEAD_COLOURS)], label=str(head + 1)) for order, head in enumerate(heads)
    ]
    axis.legend(
        handles=patches, title="head", ncols=min(len(heads), 8), fontsize=SMALL - 1, title_fontsize=SMALL - 1,
        loc="upper center", bbox_to_anchor=(0.5, 0.0), frameon=False, handlelength=1.0, columnspacing=1.0,
    )  # fmt: skip
