"""The translation page in a browser: what a user does with it, and what it shows."""

from chromium import all_of, one, wait_for


class TranslationPage:
    """The page, opened in a browser at an address."""

    def __init__(self, browser, port: int, query: str = "", title: str = "English → German"):
        self.browser = browser
        self.address = f"http://127.0.0.1:{port}/{query}"
        browser.get_log("browser"), browser.get_log("performance")  # those of earlier pages
        browser.get(self.address)
        if title:
            wait_for(browser, lambda: one(browser, "#languages").text == title, f"the title {title}")

    def write(self, text: str) -> None:
        """Replaces the text, as pasting over it does."""
        self.browser.execute_script("const source = document.getElementById('source'); source.focus(); source.select()")
        if text:
            self.browser.execute_cdp_cmd("Input.insertText", {"text": text})
        else:
            self.browser.execute_script("document.execCommand('delete')")

    @property
    def translation(self) -> str:
        return self.browser.execute_script("return document.getElementById('translation').textContent")

    @property
    def is_done(self) -> bool:
        """Whether a translation of the text as it is now is shown whole."""
        script = "return !document.getElementById('copy-button').disabled && translation.ariaBusy === 'false'"
        return self.browser.execute_script(script)

    def wait_for(self, translation: str) -> None:
        wait_for(self.browser, lambda: self.translation == translation and self.is_done, f"{translation!r} to be shown")

    def translate(self, text: str, translation: str) -> None:
        self.write(text)
        self.wait_for(translation)

    def wait_for_text(self, selector: str, part: str) -> str:
        """Waits until an element that is shown contains a text, and returns all of it."""

        def found():
            element = one(self.browser, selector)
            return element.is_displayed() and part in element.text and element.text

        return wait_for(self.browser, found, f"{part!r} in {selector}")

    def sentence(self, number: int):
        return all_of(self.browser, ".sentence")[number]

    def words(self, number: int) -> list:
        """The words of a sentence, once its alignment is there."""
        return wait_for(self.browser, lambda: self.sentence(number).find_elements("css selector", ".word"), "words")

    def marked(self, kind: str) -> list[str]:
        """The passages of the source that are marked."""
        return [element.get_property("textContent") for element in all_of(self.browser, f"#mirror mark.{kind}")]

    def linked(self) -> list[str]:
        return [element.text for element in all_of(self.browser, ".word.linked")]

    def choose(self, number: int) -> None:
        """Clicks on a sentence and waits for its alternatives."""
        self.sentence(number).click()
        wait_for(self.browser, lambda: all_of(self.browser, "#alternatives button"), "alternatives")

    def errors(self) -> list[str]:
        """Warnings and errors on the console of the browser."""
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
