"""Heat maps of attention weights for papers: a grid with a row a layer and a column a head."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from tf_transformer.attention_maps.maps import KINDS, AttentionMaps
from tf_transformer.attention_maps.typography import SMALL, font, text_width, token_size

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
        raise ValueError(f"There are {name}s 1 to {count} in this model; asked for {wrong or 'none'}.")
    return wanted


class _Grid:
    """Panels of equal size with tokens on the left and at the bottom, placed in inches.

    matplotlib's own layouts measure every label again and again, which takes minutes for a big model.
    """

    def __init__(self, rows: int, columns: int, queries: list[str], keys: list[str]):
        cell = min(0.2, max(0.02, 24 / max(rows * len(queries), columns * len(keys))))
        self._rows, self._queries, self._keys = rows, queries, keys
        self._text = {"fontsize": token_size(cell), "parse_math": False, "fontfamily": font()}
        self._width, self._height = max(1.0, len(keys) * cell), max(0.6, len(queries) * cell)
        self._left, self._bottom = (text_width(tokens, token_size(cell)) + 0.15 for tokens in (queries, keys))
        right = self._left + columns * self._width + (columns - 1) * _GAP
        top = self._bottom + rows * self._height + (rows - 1) * _TITLE + _TITLE + 0.35
        self._size = right + 0.9, top
        self.figure = Figure(figsize=self._size)
        self._bar = right + 0.2, self._bottom, 0.12, min(3.0, top - self._bottom - _TITLE - 0.35)

    def panel(self, row: int, column: int):
        """The axes of one panel, without ticks."""
        left = self._left + column * (self._width + _GAP)
        bottom = self._bottom + (self._rows - 1 - row) * (self._height + _TITLE)
        axis = self._axes(left, bottom, self._width, self._height)
        axis.set_xticks([])
        axis.set_yticks([])
        return axis

    def label(self, axis, row: int, column: int) -> None:
        """Writes the tokens that the panels of a row or a column share."""
        axis.tick_params(length=0, pad=2)
        if column == 0:
            axis.set_yticks(range(len(self._queries)), self._queries, **self._text)
        if row == self._rows - 1:
            axis.set_xticks(range(len(self._keys)), self._keys, rotation=90, **self._text)

    def finish(self, image, title: str) -> None:
        """Adds the scale of colours and the title."""
        bar = self.figure.colorbar(image, cax=self._axes(*self._bar), label="weight")
        bar.ax.tick_params(labelsize=SMALL - 1)
        bar.ax.yaxis.label.set_size(SMALL)
        self.figure.suptitle(title, fontsize=SMALL + 3, x=self._left / self._size[0], ha="left",
                             y=1 - 0.08 / self._size[1], va="top")  # fmt: skip

    def _axes(self, left: float, bottom: float, width: float, height: float):
        across, up = self._size
        return self.figure.add_axes((left / across, bottom / up, width / across, height / up))
