"""Attention as lines from token to token, in the manner of the paper's figures 3 to 5."""

from collections.abc import Sequence

from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tf_transformer.attention_maps.heatmaps import chosen
from tf_transformer.attention_maps.maps import KINDS, AttentionMaps
from tf_transformer.attention_maps.typography import SMALL, font

# Okabe and Ito's colours, which colour-blind readers can tell apart.
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
        heads: which heads, counted from 0, each in a colour of its own; None: all.
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


def _lines(matrix, rows, colour: str, beside: float) -> LineCollection:
    pairs = [(row, column) for row in rows for column in range(matrix.shape[1]) if matrix[row, column] >= _FAINTEST]
    strength = [float(min(1.0, matrix[pair])) for pair in pairs]
    segments = [((0.0, row + beside), (1.0, column + beside)) for row, column in pairs]
    widths = [0.4 + 2.2 * weight for weight in strength]
    return LineCollection(segments, colors=colour, alpha=strength or None, linewidths=widths, capstyle="round")


def _tokens(axis, queries: list[str], keys: list[str], looking: set[int]) -> None:
    text = {"fontsize": SMALL, "va": "center", "parse_math": False, "fontfamily": font()}
    for row, token in enumerate(queries):
        axis.text(-0.04, row, token, ha="right", alpha=1.0 if row in looking else 0.35, **text)
    for row, token in enumerate(keys):
        axis.text(1.04, row, token, ha="left", **text)
    axis.set_xlim(-0.75, 1.75)
    axis.set_ylim(max(len(queries), len(keys)) - 0.4, -0.6)
    axis.axis("off")


def _legend(axis, heads: list[int]) -> None:
    patches = [
        Patch(color=HEAD_COLOURS[order % len(HEAD_COLOURS)], label=str(head + 1)) for order, head in enumerate(heads)
    ]
    axis.legend(
        handles=patches, title="head", ncols=min(len(heads), 8), fontsize=SMALL - 1, title_fontsize=SMALL - 1,
        loc="upper center", bbox_to_anchor=(0.5, 0.0), frameon=False, handlelength=1.0, columnspacing=1.0,
    )  # fmt: skip
