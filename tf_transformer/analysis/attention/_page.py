"""The attention maps as one self-contained HTML page, and the files that maps are written to."""

import base64
import html
import json
import logging
import os
import pathlib
import re
import warnings
from collections.abc import Sequence
from importlib import resources

import numpy as np
from matplotlib.figure import Figure

from tf_transformer._files import atomic_write, write_text
from tf_transformer.analysis.attention._figures import chosen, heatmaps, lines
from tf_transformer.analysis.attention._maps import KINDS, AttentionMaps
from tf_transformer.analysis.attention._overviews import summary_figure
from tf_transformer.analysis.attention._summary import HeadSummary, summary_csv

_TEMPLATE = "tf_transformer.analysis.attention", "template"
_SCRIPTS = ("data.js", "drawing.js", "page.js", "overview.js")
_SIDES = {
    "encoder": ("source token", "source tokens it looks at"),
    "decoder": ("target token, as read", "earlier tokens it looks at"),
    "cross": ("target token, being written", "source tokens it looks at"),
}
_SHORT = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Cross"}


class Page(str):
    """The text of a page; a notebook shows it in a frame."""

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self)}" style="width:100%;height:900px;border:0"></iframe>'


def page(maps: AttentionMaps, title: str | None = None) -> Page:
    """The page as text: choose kind, layer and head, point at a token to see where it looks.

    Example:
        >>> pathlib.Path("attention.html").write_text(page(maps), encoding="utf-8")
    """
    source, target = _sentence(_without_eos(maps.source)), _sentence(maps.target[1:])
    values = {
        "TITLE": html.escape(title or f"Attention: {source}"),
        "SOURCE": html.escape(source),
        "TARGET": html.escape(target),
        "STYLE": _file("style.css"),
        "SCRIPT": "\n".join(_file(name) for name in _SCRIPTS),
        "DATA": _json(maps),
    }
    # Split rather than replaced one after another, so that a sentence with "@DATA@" in it stays a sentence.
    parts = _file("page.html").split("@")
    return Page("".join(values[part] if index % 2 else part for index, part in enumerate(parts)))


def _json(maps: AttentionMaps) -> str:
    """The data of the page; "<" is escaped, because a token may be "</script>"."""
    kinds = {kind: _kind(maps, kind) for kind in KINDS}
    return json.dumps({"kinds": kinds}, ensure_ascii=False).replace("<", "\\u003c")


def _kind(maps: AttentionMaps, kind: str) -> dict:
    weights = maps.weights(kind)
    notes = None
    if kind == "decoder":
        notes = [f"then the decoder writes “{_plain(token)}”" for token in maps.predicted]
    elif kind == "cross":
        notes = [f"after reading “{_plain(token)}”" for token in maps.target]
    return {
        "title": KINDS[kind].capitalize(),
        "short": _SHORT[kind],
        "querySide": _SIDES[kind][0],
        "keySide": _SIDES[kind][1],
        "queries": maps.queries(kind),
        "keys": maps.keys(kind),
        "notes": notes,
        "layers": weights.shape[0],
        "heads": weights.shape[1],
        "weights": base64.b64encode(np.rint(weights * 65535).astype("<u2").tobytes()).decode("ascii"),
    }


def _without_eos(tokens: list[str]) -> list[str]:
    return tokens[:-1] if tokens[-1:] == ["</s>"] else tokens


def _sentence(tokens: list[str]) -> str:
    return "".join(tokens).replace("▁", " ").strip()


def _plain(token: str) -> str:
    return token.removeprefix("▁") or token


def _file(name: str) -> str:
    package, folder = _TEMPLATE
    return (resources.files(package) / folder / name).read_text(encoding="utf-8").rstrip()


DOTS_PER_INCH = 150

logger = logging.getLogger(__name__)


def write_maps(
    maps: AttentionMaps,
    directory: str | os.PathLike,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> list[pathlib.Path]:
    """Write the page, the arrays and the figures, PNG and SVG, and return their paths.

    Args:
        maps: of one sentence pair.
        directory: is created.
        layers, heads: which the pictures show, counted from 0; None: all. The pictures of lines show the last of them.
    """
    wanted = chosen("layer", layers, max(len(maps.encoder), len(maps.decoder)))
    chosen("head", heads, maps.encoder.shape[1])
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    html, arrays = directory / "attention.html", directory / "attention.npz"
    write_text(html, page(maps))
    maps.save(arrays)
    paths = [html, arrays]
    for kind in KINDS:
        # One of the stacks may be shallower than the other.
        if there := [layer for layer in wanted if layer < len(maps.weights(kind))]:
            paths += write_figure(heatmaps(maps, kind, there, heads, mean=heads is None), directory / kind)
            paths += write_figure(lines(maps, kind, there[-1], heads), directory / f"{kind}-lines")
    return paths


def write_summary(heads: Sequence[HeadSummary], directory: str | os.PathLike) -> list[pathlib.Path]:
    """Write the summary as CSV and as a figure, and return the paths."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    table = directory / "heads.csv"
    write_text(table, summary_csv(heads))
    return [table, *write_figure(summary_figure(heads), directory / "heads")]


def write_figure(figure: Figure, stem: str | os.PathLike) -> list[pathlib.Path]:
    """Write a figure as `stem`.png and `stem`.svg, with one warning about characters that the font lacks."""
    stem = pathlib.Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for path in paths:
            with atomic_write(path) as stream:
                figure.savefig(stream, dpi=DOTS_PER_INCH, format=path.suffix[1:])
    lacking = [each for each in caught if re.match(r"Glyph \d+ .*missing", str(each.message))]
    if lacking:
        logger.warning("%s: matplotlib's font lacks some characters; they appear as boxes.", paths[0])
    for each in caught:
        if each not in lacking:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return paths
