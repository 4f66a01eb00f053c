"""The readers of what servers answer: the hub's description of a repository, and responses with an archive."""

import base64
import contextlib
import io
import json
import pathlib
import random
import shutil
from collections.abc import Iterator
from typing import Any
from unittest import mock

import requests
from fuzz.mutation import mutate, mutate_json, mutate_zip, zipped
from fuzz.readers import Reader
from huggingface_hub.hf_api import ModelInfo

from tf_transformer.importing.downloads import _archive_file, _download, _hub, download_model

REPOSITORY = "hf:owner/name"
ADDRESS = "https://example.org/models/opus.zip"
_FILES = {
    "config.json": b"{}",
    "vocab.json": b"{}",
    "source.spm": b"x",
    "README.md": b"",
    "model.safetensors": b"12345",
}


def download_readers() -> dict[str, Reader]:
    """The readers by name; each answer is the only one that a server gives."""
    answer = {"id": "owner/name", "sha": "4" * 40, "cardData": {"license": "mit"}, "siblings": _siblings()}
    size = len(base64.b64decode(_body()))
    response = {"status": 200, "headers": {"Content-Length": size, "ETag": '"1"', "Content-Type": "application/zip"}}
    partial = {"status": 206, "headers": {"Content-Range": f"bytes 0-{size - 1}/{size}", "Retry-After": "1"}}
    seeds = tuple(json.dumps(each | {"body": _body()}).encode() for each in (response, partial))
    return {
        "hub-answer": Reader("name", (json.dumps(answer).encode(),), _read_answer, mutate_json),
        "archive-response": Reader("opus.zip", seeds, _read_response, _mutate_response),
    }


def _siblings() -> list[dict]:
    return [
        {"rfilename": name, "size": len(data), "blobId": None if name.startswith("model") else "0" * 40}
        for name, data in _FILES.items()
    ]


def _body() -> str:
    return base64.b64encode(zipped({"a/config.json": b"{}", "a/model.npz": bytes(99)})).decode()


class _Hub:
    """The part of `HfApi` that is used. Files have the content that they should have."""

    endpoint = "https://example.org"

    def __init__(self, answer: pathlib.Path, folder: pathlib.Path) -> None:
        self._answer, self._folder = answer, folder

    def model_info(self, repository: str, **_: Any) -> ModelInfo:
        return ModelInfo(**json.loads(self._answer.read_bytes()))

    def hf_hub_download(self, repository: str, file: str, **_: Any) -> str:
        path = self._folder / file
        if not path.resolve().is_relative_to(self._folder.resolve()):
            raise AssertionError(f"asked for {file!r}")
        path.write_bytes(_FILES.get(file, b""))
        return str(path)


def _read_answer(path: pathlib.Path) -> None:
    with _no_pauses(), _empty_folder(path.parent / "hub") as folder:
        with mock.patch.object(_hub, "_api", lambda: _Hub(path, folder)), mock.patch.object(_hub, "git_blob_id", _blob):
            found = download_model(REPOSITORY)
        assert isinstance(found.facts["revision"], str) and (found.licence is None or isinstance(found.licence, str))


def _blob(file: pathlib.Path) -> str:
    return "0" * 40


def _read_response(path: pathlib.Path) -> None:
    try:
        answer = json.loads(path.read_bytes())
        body = base64.b64decode(answer["body"])
    except (ValueError, TypeError, LookupError):  # bytes that are no response of ours: the body of one
        answer, body = {"status": 200, "headers": {}}, path.read_bytes()

    def get(url: str, **_: Any) -> requests.Response:
        response = requests.Response()
        response.url, response.status_code, response.reason = url, answer["status"], "reason"
        response.headers.update({name: str(value) for name, value in answer["headers"].items()})
        response.raw = io.BytesIO(body)
        return response

    with _no_pauses(), _empty_folder(path.parent / "cache") as folder:
        with (
            mock.patch.object(requests, "get", get),
            mock.patch.object(_archive_file, "cache_directory", lambda: folder),
        ):
            found = download_model(ADDRESS)
        assert found.path.is_file() and found.path.resolve().is_relative_to(folder.resolve())


@contextlib.contextmanager
def _no_pauses() -> Iterator[None]:
    with mock.patch.object(_download, "FIRST_PAUSE", 0.0), mock.patch.object(_download, "_MAX_PAUSE", 0.0):
        yield


@contextlib.contextmanager
def _empty_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _mutate_response(data: bytes, choose: random.Random) -> bytes:
    """A response with another status, another header, or a changed archive."""
    answer = json.loads(data)
    body = base64.b64decode(answer["body"])
    if choose.random() < 0.6:
        answer["body"] = base64.b64encode(mutate_zip(body, choose)).decode()
    if choose.random() < 0.5:
        name = choose.choice([*answer["headers"], "Content-Length", "Content-Range", "Retry-After"])
        value = mutate(str(answer["headers"].get(name) or len(body)).encode(), choose)
        answer["headers"][name] = value[:300].decode("latin-1")
    if choose.random() < 0.2:
        answer["status"] = choose.choice((200, 200, 206, 206, 204, 301, 400, 404, 416, 429, 500, 503, 999))
    return json.dumps(answer).encode()
