"""The page: it holds everything, loads nothing, and no token can break out of it."""

import base64
import html.parser
import json
import re

import numpy as np
from toy_attention import toy_maps

from tf_transformer.analysis.attention._page import page


class _Reader(html.parser.HTMLParser):
    """The elements of a page with their attributes, and the text of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self._script = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._script = dict(attrs) if tag == "script" else None

    def handle_data(self, data):
        if self._script is not None:
            self.scripts.append((self._script, data))

    def handle_endtag(self, tag):
        self._script = None


def data_of(text):
    return next(json.loads(data) for attrs, data in _Reader(text).scripts if attrs.get("id") == "data")


def test_data_of_the_page_are_the_maps():
    maps = toy_maps()
    kinds = data_of(page(maps))["kinds"]
    for name, kind in kinds.items():
        assert kind["queries"] == maps.queries(name) and kind["keys"] == maps.keys(name)
        weights = np.frombuffer(base64.b64decode(kind["weights"]), "<u2").reshape(maps.weights(name).shape) / 65535
        np.testing.assert_allclose(weights, maps.weights(name), atol=1e-5)


def test_the_page_loads_nothing():
    text = page(toy_maps())
    for tag, attrs in _Reader(text).elements:
        for name in ("src", "href"):
            assert attrs.get(name, "data:").startswith("data:"), (tag, attrs)
    assert "default-src 'none'" in text
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest", text)
    addresses = set(re.findall(r"https?://[^\"'\s)]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a namespace, not a request


def test_tokens_cannot_break_out_of_the_page():
    hostile = ("</script><img src=x>", "@DATA@", "<b>", '"&amp;', "</s>")
    reader = _Reader(page(toy_maps(source=hostile)))
    assert not [tag for tag, _ in reader.elements if tag in ("img", "b")]
    assert data_of(page(toy_maps(source=hostile)))["kinds"]["encoder"]["queries"] == list(hostile)


def test_the_header_shows_the_sentences():
    text = page(toy_maps(source=("▁the", "▁bri", "dge", "</s>"), target=("▁die", "▁Brücke", "</s>")))
    assert '<dd dir="auto">the bridge</dd>' in text
    assert '<dd dir="auto">die Brücke</dd>' in text


def test_a_notebook_shows_the_page_in_a_frame():
    text = page(toy_maps())
    (tag, attrs), *rest = _Reader(text._repr_html_()).elements
    assert tag == "iframe" and not rest
    assert attrs["srcdoc"] == text
