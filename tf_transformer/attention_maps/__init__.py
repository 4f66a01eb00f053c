"""Attention maps: what each head of a trained model looks at, as arrays, pictures and a page to explore.

Example:
    >>> from tf_transformer.attention_maps import heatmaps, maps_of_workdir
    >>> maps = maps_of_workdir("run", "the cat sleeps")
    >>> maps.cross.shape                  # (layers, heads, target positions, source positions)
    >>> heatmaps(maps, "cross").savefig("cross.svg")
"""

from tf_transformer.attention_maps.heatmaps import heatmaps
from tf_transformer.attention_maps.lines import lines
from tf_transformer.attention_maps.maps import KINDS, AttentionMaps, attention_maps, maps_of_workdir
from tf_transformer.attention_maps.page import page
from tf_transformer.attention_maps.positions import position_vectors, positions_figure
from tf_transformer.attention_maps.summary import HeadSummary, summarise_heads
from tf_transformer.attention_maps.summary_figure import summary_figure

__all__ = [
    "KINDS",
    "AttentionMaps",
    "HeadSummary",
    "attention_maps",
    "heatmaps",
    "lines",
    "maps_of_workdir",
    "page",
    "position_vectors",
    "positions_figure",
    "summarise_heads",
    "summary_figure",
]
