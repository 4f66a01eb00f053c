"""A local server with TensorFlow Serving's REST interface; production is TensorFlow Serving itself.

HTTP is aiohttp's, a maintained package that parses in C. The event loop only reads and writes: models run on worker
threads, and large requests are parsed, and large answers written, on threads of their own.
"""

import asyncio
import contextlib
import dataclasses
import logging
import os
import pathlib
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from tf_transformer.export.serving._api import Api
from tf_transformer.export.serving._batching import Batcher, BatchingOptions
from tf_transformer.export.serving._errors import UnknownModel
from tf_transformer.export.serving._http import (
    BodyReader,
    HttpServer,
    check_address,
    connections_for_descriptors,
    listen,
    raise_descriptor_limit,
)
from tf_transformer.export.serving._loading import BadModel, ServedModel
from tf_transformer.export.serving._metrics import Metrics
from tf_transformer.export.serving._model_config import sources_of_directories
from tf_transformer.export.serving._models import ModelSource, ModelVersions

_log = logging.getLogger(__name__)
_access_log = logging.getLogger(f"{__name__}.access")

_ACCESS_FORMAT = '%a - - %t "%r" %s %b %Tf'
_PARSERS = 2


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Options of the server: its address and its limits.

    Attributes:
        host, port: Where to listen; port 0 takes a free one.
        max_request_bytes: Size of the largest body, also after inflating.
        max_buffered_bytes: Bytes of all bodies that wait to be parsed; further requests are rejected with 503.
        max_request_rows: Rows in the largest request.
        max_connections: Open connections; fewer if the limit of open files leaves room for fewer.
        request_seconds: How long a client may take to send a body, or to read an answer or a part of a large one.
        keepalive_seconds: How long an idle connection is kept.
        poll_seconds: How often the directories are listed for new versions.
        shutdown_seconds: How long requests in progress may take to finish when the server stops.
        warm_up: Whether the warm-up requests of a version are replayed when it loads.
        cors: Whether pages of other origins may send requests.
        access_log: Whether each request is logged.
        batching: How requests are merged.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    max_request_bytes: int = 32 * 1024 * 1024
    max_buffered_bytes: int = 256 * 1024 * 1024
    max_request_rows: int = 1024
    max_connections: int = 4096
    request_seconds: float = 60.0
    keepalive_seconds: float = 600.0
    poll_seconds: float = 1.0
    shutdown_seconds: float = 30.0
    warm_up: bool = True
    cors: bool = False
    access_log: bool = False
    batching: BatchingOptions = dataclasses.field(default_factory=BatchingOptions)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"Expected a port from 0 to 65535. Received: {self.port}. 0 takes a free one.")


class ModelServer:
    """Serves models over HTTP, each in its newest version.

    Example:
        server = ModelServer("exports/en-de")
        await server.start()      # raises BadModel when no version loads
        ...
        await server.stop()       # when the requests in progress are answered

    Args:
        base: `MODEL_BASE`, with one directory per version; or several models as a list of ModelSource.
        name: The model's name in the paths; the name of MODEL_BASE's directory when not given.
        options: A ServerOptions.
    """

    def __init__(
        self,
        base: str | os.PathLike | Sequence[ModelSource],
        name: str | None = None,
        options: ServerOptions | None = None,
    ) -> None:
        several = isinstance(base, Sequence) and not isinstance(base, str)
        sources: list[ModelSource] = list(cast(Sequence, base)) if several else sources_of_directories([base], name)
        self.options = options or ServerOptions()
        self.port: int | None = None
        self.metrics = Metrics()
        self.models = {source.name: ModelVersions(source, self._loader_of(source)) for source in sources}
        self.name = sources[0].name
        self._loader = ThreadPoolExecutor(1, "loader")
        self._executor = ThreadPoolExecutor(self.options.batching.workers, "model")
        self._parsers = ThreadPoolExecutor(_PARSERS, "parser")
        self._http: HttpServer | None = None
        self._listening: asyncio.Server | None = None
        self._watcher: asyncio.Task | None = None

    async def start(self) -> None:
        """Load the newest versions and begin to listen; `port` is set then."""
        for versions in self.models.values():
            if not versions.base.is_dir():
                raise BadModel(f"expected a directory with versions (MODEL_BASE/1, …). Received: {versions.base}")
        await check_address(self.options.host, self.options.port)  # before the models load, which may take long
        await self._refresh()
        for versions in self.models.values():
            if not versions.available:
                raise BadModel(_why_nothing_loads(versions))
        self._http = self._make_http()
        self._listening = await listen(self._http, self.options.host, self.options.port)
        self.port = self._listening.sockets[0].getsockname()[1]
        self._watcher = asyncio.create_task(self._watch())
        for name in self.models:
            _log.info("listening at http://%s:%d/v1/models/%s", self.options.host, self.port, name)
        _log.info("translation page: http://%s:%d/", self.options.host, self.port)

    def _make_http(self) -> HttpServer:
        options = self.options
        batcher = Batcher(options.batching, self._executor, self.metrics.observe_call)
        bodies = BodyReader(options.max_request_bytes, options.request_seconds, options.max_buffered_bytes)
        api = Api(self.models, batcher, self._parsers, bodies, self.metrics, options.max_request_rows, options.cors)
        connections = connections_for_descriptors(options.max_connections)
        if connections < options.max_connections:
            _log.info("at most %d connections: the limit of open files allows no more", connections)
        return HttpServer(
            api.answer,
            connections,
            options.request_seconds,
            keepalive_timeout=options.keepalive_seconds,
            # After an error, a connection stays open for the rest of the body.
            lingering_time=min(10.0, options.request_seconds),
            access_log=_access_log if options.access_log else None,
            access_log_format=_ACCESS_FORMAT,
        )

    async def stop(self) -> None:
        """Stop listening, wait for the requests in progress, and end."""
        if self._watcher is not None:
            self._watcher.cancel()
        if self._listening is not None:
            self._listening.close()
        if self._http is not None:
            self._http.pre_shutdown()
            # aiohttp waits this long for a request to end, and then once more for it to be cancelled.
            await self._http.shutdown(self.options.shutdown_seconds / 2)
        self._loader.shutdown(wait=False, cancel_futures=True)
        self._parsers.shutdown(wait=False, cancel_futures=True)
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _loader_of(self, source: ModelSource) -> Callable[[pathlib.Path, int], ServedModel]:
        def load(directory: pathlib.Path, version: int) -> ServedModel:
            try:
                model = ServedModel(directory, version, source.name, self.options.warm_up)
            except Exception:
                self.metrics.count_load(str(directory), "fail")
                raise
            self.metrics.count_load(str(directory), "success")
            return model

        return load

    async def _refresh(self) -> None:
        for versions in self.models.values():
            await asyncio.get_running_loop().run_in_executor(self._loader, versions.refresh)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.options.poll_seconds)
            try:
                await self._refresh()
            except OSError as error:  # a directory that is removed while it is listed
                _log.warning("cannot list the versions: %s", error)


def _why_nothing_loads(versions: ModelVersions) -> str:
    base = versions.base
    try:
        reasons = [f"version {each.version}: {each.error_message}" for each in versions.statuses()]
    except UnknownModel:
        if (base / "saved_model.pb").is_file():
            return f"{base} is one version of a model: give the directory above it, {base.resolve().parent}"
        return f"expected versions in {base} (directories 1, 2, …). Received: none. Export a model there first"
    return f"no version in {base} can be served. " + "; ".join(reasons)


async def serve(
    base: str | os.PathLike | Sequence[ModelSource], name: str | None = None, options: ServerOptions | None = None
) -> None:
    """Serve until SIGTERM or SIGINT, then answer the requests in progress and return."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    server = ModelServer(base, name, options)
    raise_descriptor_limit(server.options.max_connections + 256)
    try:
        await server.start()
        await stopping.wait()
        _log.info("stopping: answering the requests in progress")
    finally:
        await server.stop()


START_SECONDS = 3600


@contextlib.contextmanager
def server_in_thread(
    base: str | os.PathLike | Sequence[ModelSource], name: str | None = None, options: ServerOptions | None = None
) -> Iterator[ModelServer]:
    """Serve `base` while the block runs; gives the started ModelServer, whose `port` is set."""
    server = ModelServer(base, name, options or ServerOptions(port=0))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="server")
    thread.start()

    def call(coroutine: Coroutine) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(timeout=START_SECONDS)

    try:
        call(server.start())
        yield server
    finally:
        call(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
