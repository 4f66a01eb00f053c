"""The translation page in Chromium: typing, whole documents, several models, faults, other origins."""

import functools
import http.server
import json
import threading
import urllib.request

import pytest
from chromium import MARKS, PATIENCE, all_of, chromium, one, point_at, press, wait_for
from exported_toy import exported_toy
from gated_proxy import gated_proxy
from toy_page_model import write_page_model
from toy_workdir import toy_sentences
from translation_page import TranslationPage

from tf_transformer.export.serving import ModelSource, ServerOptions, server_in_thread
from tf_transformer.export.serving.page import write_page

pytestmark = MARKS


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models for the page: one with all signatures, one with other languages, and one with a single signature."""
    folder = tmp_path_factory.mktemp("models")
    write_page_model(folder / "toy" / "1")
    write_page_model(folder / "second" / "7", ("he", "el"))
    write_page_model(folder / "plain" / "1", signatures=["serving_default"])
    write_page_model(folder / "many" / "1", targets=["de", "fr", "cs"])
    return [ModelSource(name, folder / name) for name in ("toy", "second", "plain", "many")]


@pytest.fixture(scope="module")
def server(models):
    with server_in_thread(models, options=ServerOptions(port=0)) as server:
        yield server


@pytest.fixture
def proxy(server):
    with gated_proxy(server.port) as proxy:
        yield proxy


def test_text_is_translated_while_it_is_typed(browser, proxy):
    page = TranslationPage(browser, proxy.port)
    press(browser, *"A red dog.")
    page.wait_for("DOG. RED A")
    press(browser, *" My cat")
    page.wait_for("DOG. RED A CAT MY")
    press(browser, *".")
    page.wait_for("DOG. RED A CAT. MY")
    assert one(browser, "#status").text == "2 sentences"
    asked = proxy.texts("document")
    assert asked.count("A red dog.") == 1, "a sentence that has not changed was sent again"
    assert page.errors() == []


def test_keys_in_quick_succession_are_one_request(browser, proxy):
    page = TranslationPage(browser, proxy.port)
    for end in range(1, 8):
        page.browser.execute_script(
            "source.value = arguments[0]; source.dispatchEvent(new Event('input'))", "a house"[:end]
        )
    page.wait_for("HOUSE A")
    assert proxy.texts("document")[-1] == "a house" and len(proxy.texts("document")) < 7


def test_stale_answers_are_never_shown(browser, proxy):
    page = TranslationPage(browser, proxy.port)
    shown = """
        window.shown = [];
        new MutationObserver(() => window.shown.push(translation.textContent))
            .observe(translation, {childList: true, subtree: true, characterData: true});
    """
    browser.execute_script(shown)
    gate = threading.Event()
    proxy.rule = lambda body: gate if "first" in json.dumps(body) else None
    page.write("the first text.")
    wait_for(browser, lambda: any("first" in json.dumps(body) for body in proxy.bodies), "the first request")
    page.translate("the second text.", "TEXT. SECOND THE")
    gate.set()
    assert proxy.held.acquire(timeout=PATIENCE)
    page.translate("the third text.", "TEXT. THIRD THE")
    assert not [text for text in browser.execute_script("return window.shown") if "FIRST" in text]
    assert proxy.texts("document").count("the first text.") <= 1


def test_parts_of_a_document_appear_as_they_arrive(browser, proxy):
    page = TranslationPage(browser, proxy.port)
    gate = threading.Event()
    proxy.rule = lambda body: gate if "number 20." in json.dumps(body) and len(body["instances"]) > 1 else None
    lines = [f"number {number}." for number in range(40)]
    page.write("\n".join(lines))
    assert page.wait_for_text("#status", "Translating: 16 of 40 sentences")
    assert page.translation.startswith("0. NUMBER\n1. NUMBER\n") and page.translation.endswith("\n…")
    assert not one(browser, "#download-button").is_enabled()
    gate.set()
    page.wait_for("\n".join(f"{number}. NUMBER" for number in range(40)))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model that was exported by the real command, with random weights."""
    with server_in_thread(exported_toy()[1].parent, "toy", ServerOptions(port=0)) as server:
        yield server


def predict(port, signature, text):
    body = json.dumps({"signature_name": signature, "instances": [{"text": text}]}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models/toy:predict", body) as response:
        return json.load(response)["predictions"][0]


def test_a_document_of_200_sentences_of_an_exported_model(browser, exported):
    sentences = [sentence.capitalize() for sentence in toy_sentences(400) if " " in sentence][:200]
    pages = ["  - " + sentence for sentence in sentences[:40]], [" ".join(sentences[40:120])], [], sentences[120:]
    text = "\n\n".join("\n".join(lines) for lines in pages) + "\n"
    page = TranslationPage(browser, exported.port, title="toy")
    page.write(text)
    expected = predict(exported.port, "document", text)
    page.wait_for(expected["translation"])
    assert one(browser, "#status").text == f"{expected['sentences']} sentences" == "200 sentences"
    assert page.errors() == []


def test_what_an_exported_model_offers(browser, exported):
    page = TranslationPage(browser, exported.port, title="toy")
    text = "The red dog likes my house."
    page.translate(text, predict(exported.port, "document", text)["translation"])
    page.choose(0)
    offered = [button.text.splitlines()[0] for button in all_of(browser, "#alternatives button")]
    assert offered == list(dict.fromkeys(predict(exported.port, "nbest", text)["translations"]))
    one(browser, "#card-button").click()
    facts = page.wait_for_text("#card-facts", "Transformer, preset toy")
    assert "segments" in facts and "none were measured" in facts
    one(browser, "#card button").click()


def test_the_words_of_an_exported_model(browser, exported):
    page = TranslationPage(browser, exported.port, title="toy")
    answers = ((text, predict(exported.port, "alignment", text)) for text in toy_sentences(50))
    text, aligned = next((text, aligned) for text, aligned in answers if aligned["links"])
    assert aligned["translation"] == predict(exported.port, "document", text)["translation"]
    page.translate(text, aligned["translation"])
    words = page.words(0)
    found = zip(aligned["target_starts"], aligned["target_ends"], strict=True)
    assert [word.text for word in words] == [aligned["translation"][start:end] for start, end in found]
    sources, number = [], aligned["links"][0][1]
    for source, target in sorted(aligned["links"]):
        if target == number:
            sources.append(text[aligned["source_starts"][source] : aligned["source_ends"][source]])
    point_at(browser, words[number])
    assert page.marked("in-word") == sources
    uncertain = [number for number, word in enumerate(words) if "uncertain" in word.get_attribute("class")]
    assert uncertain == [number for number, value in enumerate(aligned["confidences"]) if value < 0.5]


def test_several_models(browser, server):
    page = TranslationPage(browser, server.port)
    page.translate("a dog.", "DOG. A")
    one(browser, "#model option[value=second]").click()
    assert page.wait_for_text("#languages", "Hebrew") == "Hebrew → Greek"
    page.wait_for("DOG. A")
    assert one(browser, "#translation").get_attribute("lang") == "el"
    assert browser.current_url.endswith("?model=second")
    browser.refresh()
    assert page.wait_for_text("#languages", "Hebrew")
    TranslationPage(browser, server.port, "?model=unknown")  # the first instead


def test_a_multilingual_model(browser, server):
    page = TranslationPage(browser, server.port, "?model=many")
    assert [option.text for option in all_of(browser, "#target option")] == ["German", "French", "Czech"]
    page.translate("A dog. My cat.", "DOG. A CAT. MY")
    one(browser, "#target option[value=fr]").click()
    page.wait_for("fr: DOG. A fr: CAT. MY")
    assert one(browser, "#languages").text == "English → French"
    page.sentence(0).click()
    assert page.wait_for_text("#alternatives-note", "This model offers no alternatives.")
    one(browser, "#target option[value=de]").click()
    page.wait_for("DOG. A CAT. MY")
    assert page.errors() == []


def test_a_model_without_the_other_signatures(browser, server):
    page = TranslationPage(browser, server.port, "?model=plain", title="plain")
    page.translate("  one two\n\n\tthree four  \n", "  TWO ONE\n\n\tFOUR THREE  \n")
    page.sentence(0).click()
    assert page.wait_for_text("#alternatives-note", "This model offers no alternatives.")
    assert page.marked("in-sentence") == ["one two"]
    one(browser, "#card-button").click()
    assert "no signature model_card" in page.wait_for_text("#card-facts", "plain")
    one(browser, "#card button").click()
    assert page.errors() == []


def test_a_server_that_is_down_and_comes_back(browser, models):
    with server_in_thread(models, options=ServerOptions(port=0)) as server:
        port = server.port
        page = TranslationPage(browser, port)
        page.translate("a dog.", "DOG. A")
    page.write("a cat.")
    assert "does not answer" in page.wait_for_text("#error", f"http://127.0.0.1:{port}/")
    with server_in_thread(models, options=ServerOptions(port=port)):
        page.wait_for("CAT. A")
        assert not one(browser, "#error").is_displayed()


FAULTS = {
    400: ("The server rejected the request. a <b>bad</b> row", {"error": "a <b>bad</b> row"}),
    404: ("The server does not have the model “toy”.", {"error": "Servable not found"}),
    413: ("The text is too long for the server.", {"error": "larger than 5 bytes"}),
    500: ("The server failed (status 500).", {"error": "no memory"}),
    200: ("not that of a model server", "hello"),
}


@pytest.mark.parametrize("status", FAULTS)
def test_errors_are_shown_in_words(browser, proxy, status):
    page = TranslationPage(browser, proxy.port)
    message, answer = FAULTS[status]
    proxy.rule = lambda body: (status, {}, answer)
    page.write("a dog.")
    assert page.wait_for_text("#error", message)
    proxy.rule = lambda body: None
    one(browser, "#retry-button").click()
    page.wait_for("DOG. A")
    assert not one(browser, "#error").is_displayed()


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(browser, proxy, status):
    page = TranslationPage(browser, proxy.port)
    refusals = iter([(status, {"Retry-After": "1"}, {"error": "busy"})] * 2)
    proxy.rule = lambda body: next(refusals, None)
    page.write("a dog.")
    page.wait_for("DOG. A")
    assert [body["signature_name"] for body in proxy.bodies[1:4]] == ["segments"] * 3


def test_a_neighbours_fault_is_tried_once_more(browser, proxy):
    page = TranslationPage(browser, proxy.port)
    refusals = iter([(400, {}, {"error": "Tensors with name 'text' have different shapes"})])
    proxy.rule = lambda body: next(refusals, None)
    page.translate("a dog.", "DOG. A")


def test_a_text_that_is_too_long(browser, server):
    page = TranslationPage(browser, server.port)
    page.translate("a dog.", "DOG. A")
    script = "source.value = 'a dog. '.repeat(30000); source.dispatchEvent(new Event('input'))"
    browser.execute_script(script)
    assert page.wait_for_text("#error", "at most 200,000 characters")
    assert page.translation == "", "a part of a text must not look like the whole"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def static(tmp_path):
    """The page as files behind another web server: gives a function that sets the model server and returns the port."""
    write_page(tmp_path, ["toy"])
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def point_to(port):
            config = {"server": f"http://127.0.0.1:{port}", "models": ["toy"]}
            (tmp_path / "config.json").write_text(json.dumps(config))
            return server.server_address[1]

        yield point_to
        server.shutdown()
        thread.join()


def test_the_page_of_another_origin(browser, models, static):
    with server_in_thread(models, options=ServerOptions(port=0, cors=True)) as server:
        page = TranslationPage(browser, static(server.port))
        page.translate("a dog.", "DOG. A")
        assert page.errors() == []


def test_another_origin_without_cors_is_an_error_in_words(browser, server, static):
    page = TranslationPage(browser, static(server.port), title=None)
    assert page.wait_for_text("#error", "does not answer")
