"""Archives at an https address, resumed after an interruption and kept in a cache.

$TF_TRANSFORMER_CACHE, or ~/.cache/tf_transformer
    downloads/HOST/PATH.zip         complete and checked
    downloads/HOST/PATH.zip.part    the beginning of a file, to be resumed
    downloads/HOST/PATH.zip.state   the version of the file that the beginning belongs to
"""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import pathlib
import re
import urllib.parse
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from tf_transformer._files import sha256_of_file, sync, write_json
from tf_transformer._progress import Progress
from tf_transformer.importing._archive import MAX_BYTES
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._settings import shorten
from tf_transformer.importing.downloads._download import Download, TemporaryError, address, check_sha256, retry

if TYPE_CHECKING:
    import requests

SUFFIXES = (".zip", ".argosmodel")
_TIMEOUT = (10, 60)
# What is lost of a connection that breaks is less than a block.
_BLOCK = 1 << 16
_HTML = re.compile(rb"\s*<(!doctype|html|head|body|\?xml)", re.IGNORECASE)
_RANGE = re.compile(r"bytes (\d{1,15})-\d{1,15}/(\d{1,15})")

logger = logging.getLogger(__name__)


def download_archive(url: str, sha256: str | None = None) -> Download:
    """Download an archive, unless the cache has it.

    Args:
        sha256: checksum that the archive must have.
    """
    file = cached_file(url)
    advice = (
        f"Download {url} in another way, put it at {file}, and give the same command again; or pass your own copy: "
        "`--from FILE`."
    )
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(file) as part:
            retry(lambda: _fetch(url, part, file, advice), url, advice)
            _check_content(part, url, sha256, advice)
            part.replace(file)
            sync(file.parent)
            _state_file(file).unlink(missing_ok=True)
    elif sha256 is not None:
        try:
            check_sha256(file, sha256)
        except ImportedModelError as error:
            raise ImportedModelError(f"{error} Remove the file to download it again, or correct --sha256.") from None
    logger.info("%s is kept at %s.", url, file)
    return Download(file, {"from": url, "sha256": sha256_of_file(file)})


def cache_directory() -> pathlib.Path:
    """The directory of downloads: $TF_TRANSFORMER_CACHE, or tf_transformer in $XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("TF_TRANSFORMER_CACHE"):
        return pathlib.Path(own)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tf_transformer"


def cached_file(url: str) -> pathlib.Path:
    """The place of the archive at `url` in the cache: its host and path, so that it can be put there by hand."""
    parts = address(url)
    names = [urllib.parse.unquote(name) for name in parts.path.split("/") if name]
    unsafe = any(name in (".", "..") or "/" in name or "\\" in name or not name.isprintable() for name in names)
    if not names or unsafe or not names[-1].lower().endswith(SUFFIXES):
        raise ImportedModelError(f"Expected an address that ends in {' or '.join(SUFFIXES)}. Received: {url[:200]!r}.")
    if parts.query:
        stem, suffix = os.path.splitext(names[-1])
        names[-1] = f"{stem}-{hashlib.sha256(parts.query.encode()).hexdigest()[:8]}{suffix}"
    return cache_directory().joinpath("downloads", parts.netloc.rpartition("@")[2], *names)


@contextlib.contextmanager
def _exclusive(file: pathlib.Path) -> Iterator[pathlib.Path]:
    """The path of the incomplete download of `file`, locked against other processes."""
    part = file.with_name(f"{file.name}.part")
    with part.open("ab") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ImportedModelError(
                f"Expected no other download of {file}. Received: one that is running. Wait until it ends."
            ) from None
        yield part


def _fetch(url: str, part: pathlib.Path, file: pathlib.Path, advice: str) -> None:
    """One request: the whole file, or what follows the part that is there, if the server still has that version."""
    import requests

    there, version = part.stat().st_size, _version_of_part(file)
    headers = {"Accept-Encoding": "identity"}
    if there and version:
        headers |= {"Range": f"bytes={there}-", "If-Range": version}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            address(response.url)
            _check_status(response, part, url, advice)
            start, total = _extent(response, there)
            if total is not None and total > MAX_BYTES:
                raise ImportedModelError(f"{url}: expected at most {MAX_BYTES:,} bytes. Received: {total:,} bytes.")
            if not start:
                write_json(_state_file(file), {"version": _strong_version(response)})
            with part.open("r+b") as opened:
                opened.truncate(start)
                opened.seek(start)
                _receive(response, opened, start, total, file.name)
    except requests.RequestException as error:
        raise TemporaryError(shorten(error)) from None


def _check_status(response: "requests.Response", part: pathlib.Path, url: str, advice: str) -> None:
    code = response.status_code
    if code == 416:
        part.open("wb").close()
        raise TemporaryError("the server has another version of the file than was begun")
    if code == 429 or code >= 500:
        wait = response.headers.get("Retry-After", "")
        raise TemporaryError(f"the server answered {code} {response.reason}", float(wait) if wait.isdecimal() else 0.0)
    if code not in (200, 206):
        raise ImportedModelError(f"Expected to download {url}. Received: {code} {response.reason}.\n{advice}")


def _extent(response: "requests.Response", there: int) -> tuple[int, int | None]:
    """Where the answer begins in the file, and the size of the whole file if it is stated."""
    if response.status_code == 206:
        match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != there:
            raise TemporaryError("the server sent another part of the file than was requested")
        return there, int(match[2])
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else None


def _receive(response: "requests.Response", opened: BinaryIO, start: int, total: int | None, name: str) -> None:
    with Progress(f"downloading {name}", total, "bytes", start) as progress:
        for block in response.iter_content(_BLOCK):
            if progress.done + len(block) > (MAX_BYTES if total is None else total):
                raise ImportedModelError(f"{response.url}: expected {total or MAX_BYTES:,} bytes. Received: more.")
            opened.write(block)
            progress.update(len(block))
        opened.flush()
        os.fsync(opened.fileno())
        if total is not None and progress.done < total:
            raise TemporaryError(f"the connection ended after {progress.done:,} of {total:,} bytes")


def _check_content(part: pathlib.Path, url: str, sha256: str | None, advice: str) -> None:
    """Reject a complete file that is not the archive; it is removed then."""
    found = sha256_of_file(part)
    if sha256 is not None and found != sha256:
        problem = f"expected the SHA-256 {sha256}. Received: {found}"
    elif not zipfile.is_zipfile(part):
        with part.open("rb") as opened:
            found = "an HTML page" if _HTML.match(opened.read(512)) else "another file"
        problem = f"expected a zip archive. Received: {found}"
    else:
        return
    part.unlink()
    _state_file(part.with_suffix("")).unlink(missing_ok=True)
    raise ImportedModelError(f"{url}: {problem}. The file was removed.\n{advice}")


def _strong_version(response: "requests.Response") -> str | None:
    """Version for If-Range: a strong ETag, or the date of the last change."""
    tag = response.headers.get("ETag", "")
    return tag if tag.startswith('"') else response.headers.get("Last-Modified")


def _state_file(file: pathlib.Path) -> pathlib.Path:
    return file.with_name(f"{file.name}.state")


def _version_of_part(file: pathlib.Path) -> str | None:
    try:
        version = json.loads(_state_file(file).read_text(encoding="utf-8"))["version"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return version if isinstance(version, str) and version.isprintable() else None
