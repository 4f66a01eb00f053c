"""A local server with TensorFlow Serving's REST interface; production is TensorFlow Serving itself.

HTTP is aiohttp's: one maintained package that parses in C, limits bodies, keeps connections alive and waits for
open requests when it stops. The event loop only reads and writes; the model runs on worker threads.
"""

import asyncio
import contextlib
import dataclasses
import logging
import pathlib
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

from aiohttp import web

from tf_transformer.export.serving._batching import Batcher, BatchingOptions
from tf_transformer.export.serving._models import BadModel, ModelVersions, ServedModel, UnknownModel
from tf_transformer.export.serving._rest import (
    BadRequest,
    dumps,
    error_body,
    metadata_body,
    parse_predict,
    predict_body,
    status_body,
)

_log = logging.getLogger(__name__)

_PREDICT = re.compile(r"/v1/models/([^/:]+)(?:/versions/([0-9]{1,18}))?:(predict|classify|regress)", re.IGNORECASE)
_STATUS = re.compile(r"/v1/models/([^/:]+)(?:/versions/([0-9]{1,18}))?(/metadata)?", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Where the server listens and what it accepts.

    Attributes:
        host, port: Where to listen; port 0 takes a free one.
        max_request_bytes: Size of the largest body.
        max_request_rows: Rows in the largest request.
        poll_seconds: How often MODEL_BASE is looked at for a new version.
        shutdown_seconds: How long open requests may take to finish when the server stops.
        warm_up: Whether the warm-up requests of a version are replayed when it loads.
        batching: How requests are merged.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    max_request_bytes: int = 32 * 1024 * 1024
    max_request_rows: int = 1024
    poll_seconds: float = 1.0
    shutdown_seconds: float = 30.0
    warm_up: bool = True
    batching: BatchingOptions = dataclasses.field(default_factory=BatchingOptions)


class ModelServer:
    """Serves the newest version of a model over HTTP.

    Example:
        server = ModelServer("exports/en-de")
        await server.start()      # raises BadModel when no version loads
        ...
        await server.stop()       # when the open requests are answered

    Args:
        base: `MODEL_BASE`, with a directory for each version.
        name: The model's name in the paths; the name of MODEL_BASE's folder when not given.
        options: A ServerOptions.
    """

    def __init__(self, base, name: str | None = None, options: ServerOptions | None = None):
        self.base = pathlib.Path(base)
        self.name = name or self.base.resolve().name
        self.options = options or ServerOptions()
        self.port: int | None = None
        self.versions = ModelVersions(self.base, self.name, self._load)
        self._loader = ThreadPoolExecutor(1, "loader")
        self._executor = ThreadPoolExecutor(self.options.batching.workers, "model")
        self._batcher = Batcher(self.options.batching, self._executor)
        self._runner: web.AppRunner | None = None
        self._watcher: asyncio.Task | None = None

    async def start(self) -> None:
        """Loads the newest version and begins to listen; `port` is the port then."""
        if not self.base.is_dir():
            raise BadModel(f"expected a directory with versions (MODEL_BASE/1, …), but {self.base} is none")
        if not await self._refresh():
            raise BadModel(self._why_nothing_loads())
        app = web.Application(client_max_size=self.options.max_request_bytes)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # aiohttp waits so long for a request to end, and then once more for it to be cancelled.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=self.options.shutdown_seconds / 2)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.options.host, self.options.port, backlog=1024).start()
        self.port = self._runner.addresses[0][1]
        self._watcher = asyncio.create_task(self._watch())
        _log.info("listening at http://%s:%d/v1/models/%s", self.options.host, self.port, self.name)

    async def stop(self) -> None:
        """Stops listening, waits for the open requests, and ends."""
        if self._watcher is not None:
            self._watcher.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        self._loader.shutdown(wait=False, cancel_futures=True)
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _load(self, directory, version: int) -> ServedModel:
        return ServedModel(directory, version, self.options.warm_up)

    async def _refresh(self) -> bool:
        return await asyncio.get_running_loop().run_in_executor(self._loader, self.versions.refresh)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.options.poll_seconds)
            try:
                await self._refresh()
            except OSError as error:  # a folder that goes away while it is looked at
                _log.warning("cannot look at the versions in %s: %s", self.base, error)

    def _why_nothing_loads(self) -> str:
        try:
            reasons = [f"version {each.version}: {each.error_message}" for each in self.versions.statuses(self.name)]
        except UnknownModel:
            if (self.base / "saved_model.pb").is_file():
                return f"{self.base} is one version of a model: give the folder above it, {self.base.resolve().parent}"
            return f"expected versions in {self.base} (directories 1, 2, …), but found none: export a model there first"
        return f"no version in {self.base} can be served. " + "; ".join(reasons)

    async def _handle(self, request: web.Request) -> web.Response:
        """Answers any request; every error becomes `{"error": …}` with its code."""
        try:
            return _json(200, await self._route(request))
        except BadRequest as error:
            return _json(error.status, error_body(str(error)))
        except web.HTTPRequestEntityTooLarge:
            limit = self.options.max_request_bytes
            return _json(413, error_body(f"the request is larger than {limit} bytes: send fewer rows"))
        except web.RequestPayloadError as error:
            return _json(400, error_body(f"the body of the request cannot be read: {error}"))
        except Exception as error:  # a fault of one request must not look different from outside
            _log.exception("a request failed")
            return _json(500, error_body(str(error)))

    async def _route(self, request: web.Request) -> dict:
        if request.method == "POST" and (match := _PREDICT.fullmatch(request.path)):
            name, version, verb = match.groups()
            if verb.lower() != "predict":
                raise BadRequest(f"the signatures of this model are for :predict, not for :{verb}")
            return await self._predict(self.versions.get(name, _number(version)), await request.read())
        if request.method in ("GET", "HEAD") and (match := _STATUS.fullmatch(request.path)):
            name, version, metadata = match.groups()
            if not metadata:
                return status_body(self.versions.statuses(name, _number(version)))
            model = self.versions.get(name, _number(version))
            return metadata_body(name, model.version, model.signature_defs)
        if request.path.lower().startswith("/v1/"):
            raise BadRequest(f"Malformed request: {request.method} {request.path}")
        raise UnknownModel(f"nothing is at {request.path}: try GET /v1/models/{self.name}")

    async def _predict(self, model: ServedModel, body: bytes) -> dict:
        request = parse_predict(body, lambda name: model.signature(name).inputs)
        for name, tensor in request.tensors.items():
            if tensor.ndim and tensor.shape[0] > self.options.max_request_rows:
                limit = self.options.max_request_rows
                raise BadRequest(
                    f"input {name!r} has {tensor.shape[0]} rows, but a request may have {limit}: send fewer"
                )
        outputs = await self._batcher.run(model.signature(request.signature), request.tensors)
        return predict_body(outputs, request.as_rows)


async def serve(base, name: str | None = None, options: ServerOptions | None = None) -> None:
    """Serves until SIGTERM or SIGINT, then answers what is open and returns."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    server = ModelServer(base, name, options)
    try:
        await server.start()
        await stopping.wait()
        _log.info("stopping: answering what is open")
    finally:
        await server.stop()


def _number(version: str | None) -> int | None:
    return None if version is None else int(version)


def _json(status: int, body: dict) -> web.Response:
    return web.Response(status=status, body=dumps(body), content_type="application/json")


START_SECONDS = 600


@contextlib.contextmanager
def server_in_thread(base, name: str | None = None, options: ServerOptions | None = None):
    """Serves `base` while the block runs; gives the started ModelServer, whose `port` is known then."""
    server = ModelServer(base, name, options or ServerOptions(port=0))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="server")
    thread.start()

    def call(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(timeout=START_SECONDS)

    try:
        call(server.start())
        yield server
    finally:
        call(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
