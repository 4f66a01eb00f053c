"""The page of attention maps in a real browser: choosing, pointing, averaging, keys, both themes, nothing loaded."""

import numpy as np
import pytest
from chromium import MARKS, all_of, chromium, contrast, one, point_at, press
from toy_attention import toy_maps

from tf_transformer.analysis.attention._page import page

pytestmark = MARKS

SOURCE = ("▁the", "▁old", "▁bri", "dge", "<b>$&", "</s>")
TARGET = ("▁die", "▁alte", "▁Brücke", "</s>")


@pytest.fixture(scope="module")
def maps():
    return toy_maps(SOURCE, TARGET, layers=2, heads=3)


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def opened(browser, maps, tmp_path):
    path = tmp_path / "attention.html"
    path.write_text(page(maps), encoding="utf-8")
    browser.get(path.as_uri())
    yield browser
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def choose(browser, kind=None, layer=None, head=None):
    from selenium.webdriver.support.ui import Select

    if kind:
        browser.execute_script("document.querySelector(`#kinds input[value=${arguments[0]}]`).click()", kind)
    if layer is not None:
        Select(one(browser, "#layer")).select_by_value(str(layer))
    if head is not None:
        Select(one(browser, "#head")).select_by_value(str(head))


def reading(browser):
    """The attention weights that the page shows for a token: {token: percentage}."""
    items = all_of(browser, "#reading li")
    return {one(item, "b").text: float(one(item, "span").text.rstrip("%")) for item in items}


def expected(weights, tokens):
    return {token.removeprefix("▁"): 100 * float(weight) for token, weight in zip(tokens, weights) if weight > 5e-4}


def test_the_page_opens_on_the_mean_of_the_last_cross_attention(opened, maps):
    assert one(opened, "#lines-title").text == "Cross-attention, layer 2, mean of heads"
    assert [button.text for button in all_of(opened, "#queries button")] == list(TARGET)
    assert [button.text for button in all_of(opened, "#keys button")] == list(SOURCE)
    assert len(all_of(opened, "#overview button")) == 2 * (3 + 1)


def test_pointing_at_a_token_shows_where_it_looks(opened, maps):
    choose(opened, "cross", layer=1, head=2)
    point_at(opened, all_of(opened, "#queries button")[2])
    assert one(opened, "#reading-title").text == "“Brücke” looks at"
    assert reading(opened) == pytest.approx(expected(maps.cross[1, 2, 2], SOURCE), abs=0.51)
    drawn = int((maps.cross[1, 2, 2] >= 0.02).sum())
    assert len(all_of(opened, "#strokes line")) == drawn
    point_at(opened, one(opened, "h1"))
    assert reading(opened) == {}


def test_pointing_at_a_key_shows_who_looks_at_it(opened, maps):
    choose(opened, "encoder", layer=0, head=1)
    point_at(opened, all_of(opened, "#keys button")[4])
    assert one(opened, "#reading-title").text == "“<b>$&” is looked at by"
    assert reading(opened) == pytest.approx(expected(maps.encoder[0, 1, :, 4], SOURCE), abs=0.51)


def test_the_mean_over_heads(opened, maps):
    choose(opened, "encoder", layer=1, head=-1)
    point_at(opened, all_of(opened, "#queries button")[1])
    assert reading(opened) == pytest.approx(expected(maps.encoder[1, :, 1].mean(axis=0), SOURCE), abs=0.51)


def test_a_click_holds_a_token_and_escape_lets_go(opened, maps):
    from selenium.webdriver.common.keys import Keys

    choose(opened, "decoder", layer=1, head=0)
    all_of(opened, "#queries button")[2].click()
    point_at(opened, one(opened, "h1"))
    assert one(opened, "#reading-note").text == "then the decoder writes “Brücke”"
    held = reading(opened)
    choose(opened, head=1)
    assert reading(opened) != held
    press(opened, Keys.ESCAPE)
    opened.execute_script("document.activeElement.blur()")
    assert reading(opened) == {}


def test_everything_by_keyboard(opened, maps):
    from selenium.webdriver.common.keys import Keys

    choose(opened, "cross", layer=0, head=0)
    one(opened, "#head").send_keys(Keys.TAB)
    press(opened, Keys.ARROW_DOWN)
    assert one(opened, "#reading-title").text == "“alte” looks at"
    press(opened, Keys.ARROW_RIGHT, Keys.END)
    assert one(opened, "#reading-title").text == "“</s>” is looked at by"
    press(opened, Keys.TAB)
    assert opened.switch_to.active_element.get_attribute("aria-label") == "layer 1, head 1"
    press(opened, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ENTER)
    assert one(opened, "#lines-title").text == "Cross-attention, layer 2, head 2"


def test_thumbnails_choose_layer_and_head(opened):
    button = one(opened, '#overview button[data-layer="0"][data-head="2"]')
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert opened.current_url.endswith("#cross/1/3")


def pixels(browser):
    """The colors of the drawn matrix: (height, width, 4)."""
    script = "const c = arguments[0]; return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"
    canvas = one(browser, "#matrix")
    size = int(canvas.get_attribute("height")), int(canvas.get_attribute("width")), 4
    return np.array(browser.execute_script(script, canvas), "uint8").reshape(size)


def test_both_themes_have_contrast(opened):
    for _ in range(2):
        colors = opened.execute_script(
            "return ['body', '.note', '#reading-title'].map(s => getComputedStyle(document.querySelector(s)).color)"
            ".concat([getComputedStyle(document.body).backgroundColor])"
        )
        *letters, paper = [[float(part) for part in color[4:-1].split(",")] for color in colors]
        assert all(contrast(letter, paper) >= 4.5 for letter in letters)
        before = pixels(opened)
        one(opened, "#theme").click()
        assert (pixels(opened) != before).any()


def test_nothing_is_loaded_and_nothing_overflows(opened):
    assert opened.execute_script("return performance.getEntriesByType('resource').length") == 0
    try:
        for width in (1400, 500):
            opened.set_window_size(width, 1000)
            wide = opened.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0
    finally:
        opened.set_window_size(1400, 1400)


def test_the_frame_of_a_notebook_works_too(browser, maps, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html><meta charset=utf-8>{page(maps)._repr_html_()}", encoding="utf-8")
    browser.get(path.as_uri())
    browser.switch_to.frame(0)
    one(browser, '#overview button[data-layer="0"][data-head="0"]').click()
    assert one(browser, "#lines-title").text == "Cross-attention, layer 1, head 1"
    browser.switch_to.default_content()
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
