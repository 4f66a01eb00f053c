"""Shared parts of downloads: the result, attempts with pauses, checksums, and which addresses are allowed."""

import dataclasses
import hashlib
import logging
import pathlib
import re
import time
import urllib.parse
from collections.abc import Callable
from typing import TypeVar

from tf_transformer._files import sha256_of_file
from tf_transformer.importing._external_model import ImportedModelError

ATTEMPTS = 5
FIRST_PAUSE = 1.0
_MAX_PAUSE = 60.0
_SHA256 = re.compile(r"[0-9a-f]{64}")

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Download:
    """A model that was downloaded, or that was in the cache.

    Attributes:
        path: the folder or the archive.
        facts: where it came from, for import.json: `from`, and `revision` or `sha256`.
        licence: that the hub states.
    """

    path: pathlib.Path
    facts: dict
    licence: str | None = None


class TemporaryError(Exception):
    """A failure that another attempt may not have: a server that is busy, a connection that broke.

    Attributes:
        pause: seconds that the server asks to wait.
    """

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.pause = pause


def retry(attempt: Callable[[], Result], what: str, advice: str) -> Result:
    """Call `attempt` until it raises no TemporaryError, at most `ATTEMPTS` times with growing pauses.

    Args:
        what: name of the model, for messages.
        advice: what to do if every attempt failed.
    """
    for number in range(1, ATTEMPTS + 1):
        try:
            return attempt()
        except TemporaryError as error:
            if number == ATTEMPTS:
                raise ImportedModelError(
                    f"Expected to download {what}. Received, after {ATTEMPTS} attempts: {error}.\n{advice}"
                ) from None
            pause = min(max(FIRST_PAUSE * 2 ** (number - 1), error.pause), _MAX_PAUSE)
            logger.warning("Attempt %d of %d failed: %s. Next in %.0f s.", number, ATTEMPTS, error, pause)
            time.sleep(pause)
    raise AssertionError("unreachable")


def check_digits(sha256: str) -> None:
    """Raise ImportedModelError for what is no SHA-256."""
    if not _SHA256.fullmatch(sha256):
        raise ImportedModelError(f"Expected a SHA-256 of 64 hexadecimal digits. Received: {sha256[:80]!r}.")


def check_sha256(file: pathlib.Path, expected: str) -> None:
    """Raise ImportedModelError if a file has another checksum."""
    check_digits(expected)
    found = sha256_of_file(file)
    if found != expected:
        raise ImportedModelError(f"{file}: expected the SHA-256 {expected}. Received: {found}.")


def git_blob_id(file: pathlib.Path) -> str:
    """The name that git gives to the content of a small file."""
    data = file.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def address(url: str) -> urllib.parse.SplitResult:
    """The parts of an https address; http is for addresses of this machine."""
    try:
        parts = urllib.parse.urlsplit(url)
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    except ValueError:
        raise ImportedModelError(f"Expected an https address. Received: {url[:200]!r}.") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise ImportedModelError(
            f"Expected an https address, which the server's certificate protects. Received: {url[:200]!r}."
        )
    return parts
