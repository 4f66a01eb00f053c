"""The paths of the server: TensorFlow Serving's REST interface, the page, metrics, `/health`, and LibreTranslate's.

Paths are matched with the query and before percent-decoding, as TensorFlow Serving matches them.
"""

import asyncio
import dataclasses
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tf_transformer.export.serving import _libretranslate as libretranslate
from tf_transformer.export.serving import _metrics as metrics
from tf_transformer.export.serving._batching import Batcher
from tf_transformer.export.serving._errors import BadRequest, UnknownModel
from tf_transformer.export.serving._http import BodyReader, json_response, written_within
from tf_transformer.export.serving._json import inflate
from tf_transformer.export.serving._models import ModelVersions
from tf_transformer.export.serving._responses import error_body, metadata_body, predict_body, status_body
from tf_transformer.export.serving._rest import PredictRequest, parse_predict
from tf_transformer.export.serving.page import Page

if TYPE_CHECKING:
    from tf_transformer.export.serving._loading import ServedModel

_VERSION = r"(?:/versions/(\d+)|/labels/([^/:]+))?"
_PREDICT = re.compile(rf"/v1/models/([^/:]+){_VERSION}:(predict|classify|regress)", re.IGNORECASE | re.ASCII)
_STATUS = re.compile(rf"/v1/models(?:/([^/:]+))?{_VERSION}(?:/(metadata))?", re.IGNORECASE | re.ASCII)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*", re.IGNORECASE)

_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Content-Type",
}

# Smaller bodies are parsed, and smaller answers written, on the event loop: faster than passing them to a thread.
_SMALL_BYTES = 16 * 1024
_SMALL_VALUES = 2048


@dataclasses.dataclass(frozen=True)
class Target:
    """The model, version and verb that a path under /v1/models names."""

    name: str
    version: int | None
    label: str | None
    verb: str


class Api:
    """Answers requests.

    Args:
        models: The served models by name.
        batcher: Runs signatures.
        parsers: Threads that parse and write JSON.
        bodies: Reads the bodies of requests.
        statistics: A Metrics.
        max_rows: Rows in a request.
        cors: Whether pages of other origins may send requests.
    """

    def __init__(
        self,
        models: dict[str, ModelVersions],
        batcher: Batcher,
        parsers: Executor,
        bodies: BodyReader,
        statistics: metrics.Metrics,
        max_rows: int,
        cors: bool = False,
    ) -> None:
        self.models = models
        self.statistics = statistics
        self._batcher = batcher
        self._parsers = parsers
        self._bodies = bodies
        self._max_rows = max_rows
        self._cors = _CORS if cors else {}
        self._page = Page(models)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer any request; every error becomes `{"error": …}` with its status."""
        try:
            response = await self._route(request, _ORIGIN.sub("", request.raw_path, count=1))
        except BadRequest as error:
            response = json_response(error.status, error_body(str(error)))
            if error.status in (408, 413):
                response.force_close()
        if not response.prepared:
            response.headers.update(self._cors)
        return response

    async def _route(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if request.method == "OPTIONS":
            return _preflight(request)
        if path.lower().startswith("/v1/"):
            return await self._serving(request, path)
        place = path.partition("?")[0]
        if request.method in ("GET", "HEAD"):
            if place == "/health":
                return self._health()
            if place == metrics.PATH:
                return web.Response(body=self.statistics.page(), content_type=metrics.CONTENT_TYPE)
            if place == "/languages":
                return json_response(200, libretranslate.languages(self.models))
            if (file := self._page.answer(request, place)) is not None:
                return file
        if place == "/translate" and request.method == "POST":
            return await self._translate(request)
        raise UnknownModel(f"nothing is at {request.method} {place}: try GET /v1/models/{next(iter(self.models))}")

    def _health(self) -> web.Response:
        missing = sorted(name for name, versions in self.models.items() if not versions.available)
        if missing:
            return json_response(503, {"status": "unavailable", "models": missing})
        return json_response(200, {"status": "ok"})

    async def _serving(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """TensorFlow Serving's interface, with its metrics."""
        begun, name = time.perf_counter(), ""
        try:
            target = _target(request.method, path)
            name = target.name if target.name in self.models else ""
            if request.method == "POST":
                response = await self._predict(request, target)
            else:
                response = json_response(200, self._status(target))
        except BadRequest as error:
            self.statistics.count_request(name, error.code)
            raise
        except Exception:
            self.statistics.count_request(name, "INTERNAL")
            raise
        self.statistics.count_request(name, "OK")
        self.statistics.observe_request(name, target.verb, time.perf_counter() - begun)
        return response

    def _status(self, target: Target) -> dict:
        versions = self.models.get(target.name)
        if target.verb != "metadata":
            if versions is None:
                raise UnknownModel(f"Could not find any versions of model {target.name}")
            return status_body(versions.statuses(target.version))
        model = self._model(target)
        return metadata_body(target.name, model.version, model.signature_defs)

    def _model(self, target: Target) -> "ServedModel":
        if target.name not in self.models:
            number = target.version
            wanted = f"Latest({target.name})" if number is None else f"Specific({target.name}, {number})"
            raise UnknownModel(f"Servable not found for request: {wanted}; models served: {', '.join(self.models)}")
        return self.models[target.name].get(target.version, target.label)

    async def _predict(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        model = self._model(target)
        predict = await self._parsed(request, lambda body: self._parse_predict(model, body))
        outputs = await self._batcher.run(model.signature(predict.signature), predict.tensors)
        parts = predict_body(outputs, predict.as_rows)
        if sum(array.size for array in outputs.values()) <= _SMALL_VALUES:
            return web.Response(body=b"".join(parts), content_type="application/json")
        return await self._streamed(request, parts)

    def _parse_predict(self, model: "ServedModel", body: bytes) -> PredictRequest:
        predict = parse_predict(body, lambda name: model.signature(name).inputs, self._max_rows)
        model.check_languages(predict.tensors)
        return predict

    async def _translate(self, request: web.BaseRequest) -> web.Response:
        wanted = await self._parsed(
            request, lambda body: libretranslate.parse(body, request.content_type, self._max_rows)
        )
        return json_response(200, await libretranslate.translate(self.models, self._batcher, wanted))

    async def _parsed(self, request: web.BaseRequest, parse: Callable[[bytes], Any]) -> Any:
        """The body of a request, inflated and parsed; on another thread unless it is small."""
        body = await self._bodies.read(request)
        compressed = "gzip" in request.headers.get("Content-Encoding", "")

        def convert() -> Any:
            return parse(inflate(body, self._bodies.max_bytes) if compressed else body)

        try:
            if len(body) <= _SMALL_BYTES and not compressed:
                return convert()
            return await asyncio.get_running_loop().run_in_executor(self._parsers, convert)
        finally:
            self._bodies.release(body)

    async def _streamed(self, request: web.BaseRequest, parts: Iterator[bytes]) -> web.StreamResponse:
        """A large answer, of which one part at a time is text."""
        loop = asyncio.get_running_loop()
        response = web.StreamResponse(headers=self._cors)
        response.content_type = "application/json"
        part = await loop.run_in_executor(self._parsers, next, parts, None)
        await response.prepare(request)
        while part is not None:
            async with written_within(request, self._bodies.seconds):
                await response.write(part)
            part = await loop.run_in_executor(self._parsers, next, parts, None)
        await response.write_eof()
        return response


def _target(method: str, path: str) -> Target:
    """Parse a path; raises BadRequest for one that TensorFlow Serving does not know."""
    match = {"POST": _PREDICT, "GET": _STATUS}[method].fullmatch(path) if method in ("POST", "GET") else None
    if match is None:
        raise BadRequest(f"Malformed request: {method} {path}")
    name, version, label, verb = match.groups()
    if name is None:
        raise BadRequest("Missing model name in request.")
    if version is not None and (len(version) > 19 or int(version) >= 2**63):
        raise BadRequest(f"Failed to convert version: {version[:100]} to numeric.")
    if method == "POST" and verb != "predict":
        if verb in ("classify", "regress"):
            raise BadRequest(f"expected a request for :predict, as the signatures of this model are. Received: :{verb}")
        raise BadRequest(f"Malformed request: {method} {path}")
    label = None if label is None else urllib.parse.unquote(label)
    return Target(urllib.parse.unquote(name), None if version is None else int(version), label, verb or "")


def _preflight(request: web.BaseRequest) -> web.Response:
    """The answer to a browser that asks whether it may send a request from another origin."""
    if not re.search("https?://", request.headers.get("Origin", "")):
        raise BadRequest("Origin header is missing in CORS preflight")
    return web.Response()
