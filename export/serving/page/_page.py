"""The files of the translation page, for `serve` and as a directory for any web server.

`static/` is the page as it is: HTML, style sheet and ES modules, without a build step. `config.json` tells it where
the server is and which models there are, which TensorFlow Serving's REST interface cannot list.
"""

import hashlib
import importlib.resources
import json
import os
import pathlib
from collections.abc import Iterable, Iterator
from importlib.resources.abc import Traversable
from typing import NamedTuple

from aiohttp import web

CONFIG = "config.json"
INDEX = "index.html"

_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}

HEADERS = {
    # The page loads nothing from elsewhere and sends texts nowhere else.
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # A browser keeps the files and asks each time whether they have changed.
    "Cache-Control": "no-cache",
}


class PageFile(NamedTuple):
    """A file of the page: its bytes, and the tag that changes with them."""

    body: bytes
    content_type: str
    etag: str


class Page:
    """Answers requests for the files of the page.

    Args:
        models: The names of the served models.
    """

    def __init__(self, models: Iterable[str]) -> None:
        contents = dict(_static_files()) | {CONFIG: config_text(models).encode()}
        self.files = {f"/{name}": _file(name, body) for name, body in contents.items()}
        self.files["/"] = self.files[f"/{INDEX}"]

    def answer(self, request: web.BaseRequest, place: str) -> web.Response | None:
        """The response to a request for a path, or None where the page has no such file."""
        file = self.files.get(place)
        if file is None:
            return None
        headers = HEADERS | {"ETag": file.etag}
        known = request.headers.get("If-None-Match", "")
        if known == "*" or file.etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
            return web.Response(status=304, headers=headers)
        return web.Response(body=file.body, content_type=file.content_type, charset="utf-8", headers=headers)


def write_page(directory: str | os.PathLike, models: Iterable[str] = ()) -> pathlib.Path:
    """Write the page to a directory, for any web server. Files of an earlier page are replaced, except `config.json`.

    Args:
        directory: Created if missing.
        models: The names of the models, for `config.json`.
    """
    folder = pathlib.Path(directory)
    for name, body in _static_files():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    if not (folder / CONFIG).exists():
        (folder / CONFIG).write_text(config_text(models), encoding="utf-8")
    return folder


def config_text(models: Iterable[str], server: str = "") -> str:
    """The contents of `config.json`: the server's address ("": the page's own) and the names of its models."""
    return json.dumps({"server": server, "models": list(models)}, indent=2, ensure_ascii=False) + "\n"


def _file(name: str, body: bytes) -> PageFile:
    kind = _TYPES[pathlib.PurePosixPath(name).suffix]
    return PageFile(body, kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _static_files() -> Iterator[tuple[str, bytes]]:
    """Names relative to the page, and contents."""
    return _walk(importlib.resources.files(__package__) / "static", "")


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif pathlib.PurePosixPath(entry.name).suffix in _TYPES:
            yield prefix + entry.name, entry.read_bytes()
