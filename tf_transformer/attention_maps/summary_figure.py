"""The summary of the heads as a picture: a panel a measure, layers downwards, heads to the right."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from tf_transformer.attention_maps.maps import KINDS
from tf_transformer.attention_maps.summary import HeadSummary
from tf_transformer.attention_maps.typography import SMALL

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
    """A figure with a row a kind of attention and a column a measure; each cell is a head."""
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


def _draw(axis, grid: np.ndarray, highest: float) -> None:
    axis.imshow(grid, cmap="Blues", vmin=0.0, vmax=max(highest, 1e-9), aspect="equal")
    axis.set_xticks(range(grid.shape[1]), range(1, grid.shape[1] + 1), fontsize=SMALL - 2)
    axis.set_yticks(range(grid.shape[0]), range(1, grid.shape[0] + 1), fontsize=SMALL - 2)
    axis.tick_params(length=0, pad=1)
    for (row, column), value in np.ndenumerate(grid):
        ink = "white" if value > 0.6 * highest else "#222222"
        shown = f"{value:.0f}" if highest >= 10 else f"{value:.1f}"
        axis.text(column, row, shown, ha="center", va="center", fontsize=SMALL - 2.5, color=ink)
