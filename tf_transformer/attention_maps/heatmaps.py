"""Heat maps of attention weights for papers: a grid with a row a layer and a column a head."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from tf_transformer.attention_maps.maps import KINDS, AttentionMaps
from tf_transformer.attention_maps.typography import SMALL, font, token_size

COLOURS = "Blues"


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
    rows, columns = len(layers), len(heads) + mean
    figure, cell = _canvas(rows, columns, len(maps.queries(kind)), len(maps.keys(kind)))
    axes = figure.subplots(rows, columns, squeeze=False)
    for row, layer in enumerate(layers):
        panels = [(f"layer {layer + 1}, head {head + 1}", weights[layer, head]) for head in heads]
        if mean:
            panels.append((f"layer {layer + 1}, mean", weights[layer, heads].mean(axis=0)))
        for column, (title, matrix) in enumerate(panels):
            image = _draw(axes[row, column], matrix, title)
    _label(axes, maps, kind, cell)
    figure.suptitle(KINDS[kind].capitalize(), fontsize=SMALL + 4)
    figure.colorbar(image, ax=axes, shrink=min(1.0, 3 / rows), aspect=30, label="weight", pad=0.01)
    return figure


def chosen(name: str, wanted: Sequence[int] | None, count: int) -> list[int]:
    """The indices `wanted`, checked; None is all of them."""
    wanted = list(range(count)) if wanted is None else list(wanted)
    wrong = [index + 1 for index in wanted if not 0 <= index < count]
    if wrong or not wanted:
        raise ValueError(f"There are {name}s 1 to {count} in this model; asked for {wrong or 'none'}.")
    return wanted


def _canvas(rows: int, columns: int, queries: int, keys: int) -> tuple[Figure, float]:
    """A figure in which a cell of a map is as large as its token's letters allow; and that size in inches."""
    cell = min(0.2, max(0.05, 24 / max(rows * queries, columns * keys)))
    width, height = columns * (keys * cell + 0.2) + 2.4, rows * (queries * cell + 0.4) + 1.8
    figure = Figure(figsize=(max(width, 4.0), max(height, 3.0)), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.06)
    return figure, cell


def _draw(axis, matrix: np.ndarray, title: str):
    axis.set_title(title, fontsize=SMALL)
    axis.set_xticks([])
    axis.set_yticks([])
    return axis.imshow(matrix, cmap=COLOURS, vmin=0.0, vmax=1.0, aspect="equal", interpolation="nearest")


def _label(axes, maps: AttentionMaps, kind: str, cell: float) -> None:
    """Tokens on the left and at the bottom only: the panels share them."""
    text = {"fontsize": token_size(cell), "parse_math": False, "fontfamily": font()}
    queries, keys = maps.queries(kind), maps.keys(kind)
    for axis in axes[:, 0]:
        axis.set_yticks(range(len(queries)), queries, **text)
    for axis in axes[-1, :]:
        axis.set_xticks(range(len(keys)), keys, rotation=90, **text)
    for axis in axes.flat:
        axis.tick_params(length=0, pad=2)
