"""The translation page in Chromium: sentences and words, files, themes, keys, small screens, untrusted text."""

import json

import pytest
from chromium import MARKS, all_of, chromium, contrast, one, point_at, press, wait_for
from toy_page_model import write_page_model
from translation_page import TranslationPage

from tf_transformer.export.serving import ServerOptions, server_in_thread

pytestmark = MARKS

HEBREW = "שלום עולם."


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    base = tmp_path_factory.mktemp("models") / "toy"
    write_page_model(base / "1")
    with server_in_thread(base, "toy", ServerOptions(port=0)) as server:
        yield server


@pytest.fixture
def page(browser, server):
    page = TranslationPage(browser, server.port)
    yield page
    assert page.errors() == []


def test_alternatives(browser, page):
    page.translate("A red dog. My cat.", "DOG. RED A CAT. MY")
    page.choose(1)
    assert one(browser, "#details-source").text == "My cat."
    assert [button.text.split("\n") for button in all_of(browser, "#alternatives button")] == [
        ["CAT. MY", "-0.50"],
        ["TWO CAT. MY", "-1.50"],
        ["<b>THREE</b> CAT. MY", "-2.50"],
    ]
    assert one(browser, "#alternatives [aria-pressed=true]").text.startswith("CAT. MY")
    all_of(browser, "#alternatives button")[1].click()
    page.wait_for("DOG. RED A TWO CAT. MY")
    assert one(browser, "#alternatives [aria-pressed=true]").text.startswith("TWO")
    press(browser, "\ue00c")  # Escape
    assert not one(browser, "#details").is_displayed()
    assert browser.switch_to.active_element.text == "TWO CAT. MY"
    page.write("A red dog. My cat. It sleeps.")
    page.wait_for("DOG. RED A TWO CAT. MY SLEEPS. IT")  # the choice stays as long as the sentence


def test_pointing_at_a_word_of_the_translation(browser, page):
    page.translate("First line.\nA 👩‍🚀 naïve 🏳️‍🌈 dog. Last.", "LINE. FIRST\nDOG. 🏳️‍🌈 NAÏVE 👩‍🚀 A LAST.")
    words = page.words(1)
    assert [word.text for word in words] == ["DOG.", "🏳️‍🌈", "NAÏVE", "👩‍🚀", "A"]
    for number, source in enumerate(["dog.", "🏳️‍🌈", "naïve", "👩‍🚀", "A"]):
        point_at(browser, words[number])
        assert page.marked("in-word") == [source]
        assert page.linked() == [words[number].text]
    assert one(browser, "#mirror mark").get_property("textContent") == "A 👩‍🚀 naïve 🏳️‍🌈 dog."
    point_at(browser, one(browser, "h1"))
    assert page.marked("in-word") == page.marked("in-sentence") == page.linked() == []


def test_the_marks_lie_under_the_text(browser, page):
    """The copy of the text is laid out as the text itself, also where lines are wrapped."""
    text = "\n".join(["\tone two three four five six seven eight nine ten eleven twelve " * 5, HEBREW, "x" * 400, ""])
    page.write(text)
    sizes = "return [source, mirror].map(each => [each.scrollHeight, each.clientWidth])"
    wait_for(browser, lambda: len(set(map(tuple, browser.execute_script(sizes)))) == 1, "equal sizes")
    assert browser.execute_script("return source.clientHeight >= source.scrollHeight")


def test_pointing_at_a_word_of_the_text(browser, page):
    page.translate("a red dog.", "DOG. RED A")
    page.words(0)
    place = browser.execute_script("""
        const range = document.createRange();
        range.setStart(mirror.firstChild, 3);
        range.setEnd(mirror.firstChild, 4);
        const {x, y, width, height} = range.getBoundingClientRect();
        return [x + width / 2, y + height / 2];
    """)
    from selenium.webdriver.common.actions.action_builder import ActionBuilder

    actions = ActionBuilder(browser)
    actions.pointer_action.move_to_location(*map(int, place))
    actions.perform()
    assert page.linked() == ["RED"] and page.marked("in-word") == ["red"]
    press(browser, "\ue011")  # Home: the caret points too
    wait_for(browser, lambda: page.linked() == ["A"], "the word at the caret")


def test_uncertain_words_are_shaded(browser, page):
    page.translate("it is perhaps red.", "RED. PERHAPS IS IT")
    shades = {word.text: word.value_of_css_property("background-color") for word in page.words(0)}
    assert shades["RED."] == shades["IS"] == "rgba(0, 0, 0, 0)" != shades["PERHAPS"]
    page.choose(0)
    assert one(browser, "#details-words").text == "Uncertain words: PERHAPS (10 %)"


def test_warnings_in_words(browser, page):
    page.translate(
        "An endless dog. A cat. Endless odd birds.\nAn endless odd end.",
        page_of_warnings := ("DOG. ENDLESS AN CAT. A BIRDS. ODD ENDLESS\nEND. ODD ENDLESS AN"),
    )
    assert page.translation == page_of_warnings
    assert [item.text for item in all_of(browser, "#warnings li")] == [
        "2 sentences: The sentence is longer than the model's limit and was translated in parts.",
        "2 sentences: Warning of the model: misunderstood.",
    ]
    assert [each.text for each in all_of(browser, ".sentence.warned")] == [
        "DOG. ENDLESS AN",
        "BIRDS. ODD ENDLESS",
        "END. ODD ENDLESS AN",
    ]
    page.choose(3)
    assert len(all_of(browser, "#details-warnings li")) == 2
    page.translate("A cat.", "CAT. A")
    assert not one(browser, "#warnings").is_displayed()


def colors(browser):
    """The colors of letters on what lies behind them, for several elements."""
    script = """
        const at = (id, what) => getComputedStyle(document.getElementById(id))[what];
        return [["source", "color"], ["status", "color"], ["warnings", "color"], ["source-panel", "backgroundColor"]]
            .map(([id, what]) => at(id, what).match(/[\\d.]+/g).slice(0, 3).map(Number));
    """
    return browser.execute_script(script)


@pytest.mark.parametrize("system", ["dark", "light"])
def test_dark_and_light(browser, server, system):
    emulate(browser, system)
    try:
        page = TranslationPage(browser, server.port)
        *letters, paper = colors(browser)
        assert (sum(paper) > 380) == (system == "light")
        assert all(contrast(letter, paper) >= 4.5 for letter in letters)
        one(browser, "#theme-button").click()
        *letters, paper = colors(browser)
        assert (sum(paper) > 380) == (system == "dark")
        assert all(contrast(letter, paper) >= 4.5 for letter in letters)
        TranslationPage(browser, server.port)
        assert colors(browser)[-1] == paper, "the choice was forgotten"
        assert page.errors() == []
    finally:
        browser.execute_script("localStorage.clear()")
        emulate(browser, "light")


def emulate(browser, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def test_everything_by_keyboard(browser, page):
    from selenium.webdriver.common.keys import Keys

    press(browser, *"A red dog. My cat.")  # the text has the focus
    page.wait_for("DOG. RED A CAT. MY")
    page.words(1)
    reached = []
    for _ in range(4):
        press(browser, Keys.TAB)
        reached.append(browser.switch_to.active_element)
    assert [each.get_attribute("id") for each in reached[:2]] == ["copy-button", "download-button"]
    assert reached[2].text == "DOG. RED A" and reached[3].text != "CAT. MY"
    press(browser, Keys.TAB, holding=Keys.SHIFT)
    press(browser, Keys.ARROW_DOWN)
    assert browser.switch_to.active_element.text == "CAT. MY" and page.marked("in-sentence") == ["My cat."]
    press(browser, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.marked("in-word") == ["My"]
    assert one(browser, "#announcement").get_property("textContent") == "MY: My, 90\xa0% certain"
    outline = browser.switch_to.active_element.value_of_css_property("outline-style")
    assert outline == "solid", "the focus cannot be seen"
    press(browser, Keys.ENTER)
    wait_for(browser, lambda: all_of(browser, "#alternatives button"), "alternatives")
    press(browser, Keys.ESCAPE)
    assert browser.switch_to.active_element.text == "CAT. MY" and not one(browser, "#details").is_displayed()
    press(browser, "?")
    assert one(browser, "#help").is_displayed()
    press(browser, Keys.ESCAPE)
    assert not one(browser, "#help").is_displayed()
    press(browser, "/", *" It")
    press(browser, Keys.ENTER, holding=Keys.CONTROL)
    page.wait_for("DOG. RED A CAT. MY IT")


def test_controls_have_names_and_changes_are_announced(browser, page):
    nameless = """
        return [...document.querySelectorAll("button, select, textarea, input:not([hidden]), dialog, section")]
            .filter(e => !(e.textContent.trim() || e.labels?.length || e.getAttribute("aria-labelledby")))
            .map(e => e.id)
    """
    assert browser.execute_script(nameless) == []
    assert one(browser, "#status").get_attribute("aria-live") == "polite"
    assert one(browser, "#error").get_attribute("role") == "alert"


def test_a_small_screen(browser, page):
    metrics = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        page.write("A red dog. " + "w" * 300 + " perhaps endless.")
        wait_for(browser, lambda: page.is_done and "W" * 300 in page.translation, "the translation")
        page.choose(0)
        chosen = "return [document.querySelector('.sentence'), details].map(each => each.getBoundingClientRect().top)"
        sentence, details = browser.execute_script(chosen)
        assert -1 < sentence < details, "the chosen sentence is hidden"
        assert width(browser) <= 360
        one(browser, "#card-button").click()
        assert width(browser) <= 360
        one(browser, "#card button").click()
        boxes = [one(browser, id).rect for id in ("#source-panel", "#target-panel", "#details")]
        assert [box["x"] for box in boxes] == [boxes[0]["x"]] * 3
        assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def width(browser):
    return browser.execute_script("return document.documentElement.scrollWidth")


def test_text_from_right_to_left(browser, page):
    page.translate(HEBREW, "עולם. שלום")
    for id in ("source", "mirror", "translation"):
        assert one(browser, f"#{id}").value_of_css_property("direction") == "rtl", id
    page.translate("A dog.", "DOG. A")
    assert one(browser, "#translation").value_of_css_property("direction") == "ltr"


def test_nothing_is_loaded_from_elsewhere(browser, server):
    page = TranslationPage(browser, server.port)
    page.translate("A red dog.", "DOG. RED A")
    page.choose(0)
    page.words(0)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"]
    assert len(sent) > 15 and any(url.endswith(":predict") for url in sent)
    assert {url for url in sent if not url.startswith(f"http://127.0.0.1:{server.port}/")} == set()


ATTACKS = [
    "<img src=x onerror=document.title='broken'>",
    "<script>document.title='broken'</script>",
    "<svg/onload=document.title='broken'>",
    "\"'><iframe src=javascript:alert(1)>",
    "{{constructor.constructor('alert(1)')()}} &lt;b&gt; </textarea><b>x</b>",
]


def test_text_is_never_markup(browser, page):
    page.write("\n".join(ATTACKS))
    wait_for(browser, lambda: page.is_done and "IFRAME" in page.translation, "the translation")
    for number in range(len(all_of(browser, ".sentence"))):
        page.choose(number)
    one(browser, "#card-button").click()
    assert "CC-BY <b>4.0</b>" in one(browser, "#card-facts").text
    one(browser, "#card button").click()
    elements = (
        "return document.querySelectorAll('main :is(img, script, svg, iframe, b), dialog :is(b, img, script)').length"
    )
    assert browser.execute_script(elements) == 0
    assert "broken" not in browser.title
    assert page.translation.count("<") == "\n".join(ATTACKS).count("<")


def test_a_model_name_in_the_address_is_never_markup(browser, server):
    page = TranslationPage(
        browser, server.port, "?model=%3Cimg%20src=x%20onerror=alert(1)%3E&server=http://evil.example/"
    )
    page.translate("A dog.", "DOG. A")  # the server is that of config.json
    assert page.errors() == []


def test_files_are_opened_and_downloaded(browser, page, tmp_path):
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path / "to")})
    (tmp_path / "letter.txt").write_text("\ufeffA dog.\n\n  - My ünïcödé 🐈.\n", encoding="utf-8")
    one(browser, "#file").send_keys(str(tmp_path / "letter.txt"))
    expected = "DOG. A\n\n  - 🐈. ÜNÏCÖDÉ MY\n"
    page.wait_for(expected)
    one(browser, "#download-button").click()
    made = tmp_path / "to" / "letter.de.txt"
    wait_for(browser, lambda: made.exists() and made.read_text(encoding="utf-8") == expected, "the download")


BAD_FILES = {
    "film.srt": (b"1\n00:00:01,000 --> 00:00:02,000\nHello.\n", "translate --documents"),
    "latin.txt": ("Mädchen".encode("latin-1"), "latin.txt is not a text file in UTF-8"),
    "image.png": (b"\x89PNG\0\0", "is not a text file"),
    "large.txt": (b"a dog. " * 700_000, "is larger than 4 MB"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_cannot_be_translated_here(browser, page, tmp_path, name):
    contents, message = BAD_FILES[name]
    (tmp_path / name).write_bytes(contents)
    one(browser, "#file").send_keys(str(tmp_path / name))
    assert page.wait_for_text("#error", message)


def test_a_file_is_dropped(browser, page):
    drop = """
        const data = new DataTransfer();
        data.items.add(new File(["A dog."], "note.txt", {type: "text/plain"}));
        for (const type of ["dragover", "drop"]) {
            source.dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true}));
        }
    """
    browser.execute_script(drop)
    page.wait_for("DOG. A")


def test_copy_and_clear(browser, page):
    browser.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    page.translate("A dog.\n", "DOG. A\n")
    one(browser, "#copy-button").click()
    page.wait_for_text("#copy-button", "Copied")
    copied = browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert copied == "DOG. A\n"
    one(browser, "#clear-button").click()
    wait_for(browser, lambda: page.translation == "" and not one(browser, "#copy-button").is_enabled(), "no text")
    assert browser.switch_to.active_element.get_attribute("id") == "source"
