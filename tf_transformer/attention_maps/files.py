"""The files that the attention maps are written to."""

import logging
import os
import pathlib
import re
import warnings
from collections.abc import Sequence

from matplotlib.figure import Figure

from tf_transformer.attention_maps.heatmaps import chosen, heatmaps
from tf_transformer.attention_maps.lines import lines
from tf_transformer.attention_maps.maps import KINDS, AttentionMaps
from tf_transformer.attention_maps.page import page
from tf_transformer.attention_maps.summary import HeadSummary
from tf_transformer.attention_maps.summary_figure import summary_figure
from tf_transformer.attention_maps.summary_table import summary_csv

DOTS_PER_INCH = 150

logger = logging.getLogger(__name__)


def write_maps(
    maps: AttentionMaps,
    directory: str | os.PathLike,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> list[pathlib.Path]:
    """Writes the page, the arrays and the pictures, PNG and SVG, and returns their paths.

    Args:
        maps: of one sentence pair.
        directory: is made.
        layers, heads: which the pictures show, counted from 0; None: all. The pictures of lines show the last of them.
    """
    wanted = chosen("layer", layers, max(len(maps.encoder), len(maps.decoder)))
    chosen("head", heads, maps.encoder.shape[1])
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    html, arrays = directory / "attention.html", directory / "attention.npz"
    html.write_text(page(maps), encoding="utf-8")
    maps.save(arrays)
    paths = [html, arrays]
    for kind in KINDS:
        # One of the stacks may be shallower than the other.
        if there := [layer for layer in wanted if layer < len(maps.weights(kind))]:
            paths += write_figure(heatmaps(maps, kind, there, heads, mean=heads is None), directory / kind)
            paths += write_figure(lines(maps, kind, there[-1], heads), directory / f"{kind}-lines")
    return paths


def write_summary(heads: Sequence[HeadSummary], directory: str | os.PathLike) -> list[pathlib.Path]:
    """Writes the summary as CSV and as a picture and returns the paths."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    table = directory / "heads.csv"
    table.write_text(summary_csv(heads), encoding="utf-8")
    return [table, *write_figure(summary_figure(heads), directory / "heads")]


def write_figure(figure: Figure, stem: str | os.PathLike) -> list[pathlib.Path]:
    """Writes a figure as `stem`.png and `stem`.svg; tells once of characters that the font lacks."""
    stem = pathlib.Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg")]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for path in paths:
            figure.savefig(path, dpi=DOTS_PER_INCH)
    lacking = [each for each in told if re.match(r"Glyph \d+ .*missing", str(each.message))]
    if lacking:
        logger.warning("%s: matplotlib's font lacks some characters, boxes stand for them.", paths[0])
    for each in told:
        if each not in lacking:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return paths
