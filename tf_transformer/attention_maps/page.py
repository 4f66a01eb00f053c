"""The attention maps as one HTML page to explore, which holds everything it needs and loads nothing."""

import base64
import html
import json
from importlib import resources

import numpy as np

from tf_transformer.attention_maps.maps import KINDS, AttentionMaps

_TEMPLATE = "tf_transformer.attention_maps", "template"
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
    source, target = _sentence(_without_end(maps.source)), _sentence(maps.target[1:])
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


def _without_end(tokens: list[str]) -> list[str]:
    return tokens[:-1] if tokens[-1:] == ["</s>"] else tokens


def _sentence(tokens: list[str]) -> str:
    return "".join(tokens).replace("▁", " ").strip()


def _plain(token: str) -> str:
    return token.removeprefix("▁") or token


def _file(name: str) -> str:
    package, folder = _TEMPLATE
    return (resources.files(package) / folder / name).read_text(encoding="utf-8").rstrip()
