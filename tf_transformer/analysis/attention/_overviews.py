"""Figures of a whole model: the summary of its heads, and its positional encodings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tf_transformer.analysis.attention._figures import SMALL
from tf_transformer.analysis.attention._maps import KINDS
from tf_transformer.analysis.attention._summary import HeadSummary

if TYPE_CHECKING:
    from tf_transformer.model import Transformer

_PANELS = {
    "entropy": "entropy, bits",
    "distance": "distance, tokens",
    "previous": "previous, %",
    "same": "same, %",
    "next": "next, %",
    "first": "first token, %",
    "last": "last token, %",
}


def summary_figure(summaries: Sequence[HeadSummary]) -> Figure:
    """A figure with one row per kind of attention and one column per measure; each cell is a head."""
    grids = {kind: _grids([head for head in summaries if head.kind == kind]) for kind in KINDS}
    heights = [next(iter(grid.values())).shape[0] for grid in grids.values()]
    heads = next(iter(grids["encoder"].values())).shape[1]
    cell = 0.34 if heads <= 8 else 0.26
    width = len(_PANELS) * (heads * cell + 0.35) + 0.8
    figure = Figure(
        figsize=(max(width, 8.0), sum(heights) * cell * 1.15 + len(KINDS) * 0.4 + 0.4), layout="constrained"
    )
    axes = figure.subplots(len(KINDS), len(_PANELS), squeeze=False, height_ratios=heights)
    highest = {name: max(float(grid[name].max()) for grid in grids.values()) for name in ("entropy", "distance")}
    for row, kind in enumerate(KINDS):
        for axis, name in zip(axes[row], _PANELS):
            percent = name not in highest
            _draw(axis, grids[kind][name] * (100 if percent else 1), 100.0 if percent else highest[name])
            if row == 0:
                axis.set_title(_PANELS[name], fontsize=SMALL)
        axes[row, 0].set_ylabel(f"{KINDS[kind].replace(' ', chr(10), 1)}\nlayer", fontsize=SMALL)
    for axis in axes[-1]:
        axis.set_xlabel("head", fontsize=SMALL)
    return figure


def _grids(heads: Sequence[HeadSummary]) -> dict[str, np.ndarray]:
    """Each measure as an array (layers, heads)."""
    shape = max(head.layer for head in heads), max(head.head for head in heads)
    grids = {name: np.zeros(shape) for name in _PANELS}
    for head in heads:
        for name, grid in grids.items():
            grid[head.layer - 1, head.head - 1] = getattr(head, name)
    return grids


def _draw(axis: Axes, grid: np.ndarray, highest: float) -> None:
    axis.imshow(grid, cmap="Blues", vmin=0.0, vmax=max(highest, 1e-9), aspect="equal")
    axis.set_xticks(range(grid.shape[1]), map(str, range(1, grid.shape[1] + 1)), fontsize=SMALL - 2)
    axis.set_yticks(range(grid.shape[0]), map(str, range(1, grid.shape[0] + 1)), fontsize=SMALL - 2)
    axis.tick_params(length=0, pad=1)
    for (row, column), value in np.ndenumerate(grid):
        ink = "white" if value > 0.6 * highest else "#222222"
        shown = f"{value:.0f}" if highest >= 10 else f"{value:.1f}"
        axis.text(column, row, shown, ha="center", va="center", fontsize=SMALL - 2.5, color=ink)


def position_vectors(kind: str = "sinusoidal", dim: int = 512, length: int = 128) -> np.ndarray:
    """The encodings of positions 0 … length - 1 by formula: (length, dim). "sinusoidal", "t2t" or "marian"."""
    from tf_transformer.layers import sinusoidal_encoding

    if kind not in ("sinusoidal", "t2t", "marian"):
        raise ValueError(
            f"Expected positions by formula: sinusoidal, t2t or marian. Received: {kind!r}. For others, use "
            "positions_of_model."
        )
    return np.asarray(sinusoidal_encoding(np.arange(length), dim, kind))


def positions_of_model(model: "Transformer", length: int = 128) -> np.ndarray:
    """The encodings that a Transformer adds to its source: (at most `length`, D); learned ones as they are now."""
    config = model.config
    if config.positions == "learned":
        return np.asarray(model.source_positions.table, dtype="float32")[:length]
    return position_vectors(config.positions, config.model_dim, length)


def positions_figure(vectors: np.ndarray, title: str = "Positional encodings") -> Figure:
    """A figure of encodings (length, D): the vectors, all dot products, and those of a few positions.

    Example:
        >>> positions_figure(position_vectors("sinusoidal", dim=512, length=100)).savefig("positions.png")
    """
    length = len(vectors)
    products = vectors @ vectors.T
    figure = Figure(figsize=(12.0, 3.9), layout="constrained")
    encodings, matrix, curves = figure.subplots(1, 3)
    limit = float(np.abs(vectors).max())
    _image(figure, encodings, vectors, "RdBu_r", (-limit, limit), "encoding", ("dimension", "position"))
    _image(figure, matrix, products, "viridis", (None, None), "dot product", ("position", "position"))
    for position in sorted({0, length // 4, length // 2, 3 * length // 4}):
        curves.plot(products[position], label=f"{position}", linewidth=1.2)
    curves.set_title("dot product with a position", fontsize=SMALL + 1)
    curves.set_xlabel("position", fontsize=SMALL)
    curves.legend(fontsize=SMALL - 1, frameon=False, ncols=4, columnspacing=1.0, handlelength=1.0,
                  loc="upper center", bbox_to_anchor=(0.5, -0.14))  # fmt: skip
    curves.tick_params(labelsize=SMALL - 1)
    curves.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=SMALL + 3)
    return figure


def _image(
    figure: Figure,
    axis: Axes,
    values: np.ndarray,
    colors: str,
    limits: tuple[float | None, float | None],
    title: str,
    labels: tuple[str, str],
) -> None:
    image = axis.imshow(values, cmap=colors, vmin=limits[0], vmax=limits[1], aspect="auto", interpolation="nearest")
    axis.set_title(title, fontsize=SMALL + 1)
    axis.set_xlabel(labels[0], fontsize=SMALL)
    axis.set_ylabel(labels[1], fontsize=SMALL)
    axis.tick_params(labelsize=SMALL - 1)
    figure.colorbar(image, ax=axis).ax.tick_params(labelsize=SMALL - 1)
