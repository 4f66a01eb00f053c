"""Chromium for tests, driven by selenium."""

import contextlib
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
PATIENCE = 300
"""Limit in seconds of every wait: ends a hang, and is far beyond what a loaded machine needs."""

MARKS = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="no chromium: apt-get install chromium chromium-driver to run it"
    ),
]


@contextlib.contextmanager
def chromium(width: int = 1400, height: int = 1400):
    """A browser without a window, with logs of its console and of its requests."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium: install the extra `browser`")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    # A container's root has no sandbox, and its shared memory is small.
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    browser.set_script_timeout(PATIENCE)
    try:
        yield browser
    finally:
        browser.quit()


def wait_for(browser, condition, what=""):
    """Waits until `condition()` is true, and returns what it gives."""
    from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
    from selenium.webdriver.support.ui import WebDriverWait

    passing = (NoSuchElementException, StaleElementReferenceException)
    wait = WebDriverWait(browser, PATIENCE, poll_frequency=0.05, ignored_exceptions=passing)
    return wait.until(lambda _: condition(), what)


def all_of(browser, selector):
    return browser.find_elements("css selector", selector)


def one(browser, selector):
    return browser.find_element("css selector", selector)


def point_at(browser, element):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).move_to_element(element).perform()


def press(browser, *keys, holding=None):
    """Types keys one after the other, wherever the focus is; `holding` is a key that is down meanwhile."""
    from selenium.webdriver.common.action_chains import ActionChains

    for key in keys:
        actions = ActionChains(browser)
        if holding:
            actions.key_down(holding)
        actions.send_keys(key)
        if holding:
            actions.key_up(holding)
        actions.perform()


def contrast(one, other):
    """The contrast ratio of WCAG 2 of two colors, each of three numbers up to 255."""

    def luminance(color):
        parts = [part / 255 for part in color]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)
