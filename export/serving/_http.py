"""HTTP on top of aiohttp's: errors as JSON, half-closed clients, bounded numbers of connections and sizes of bodies.

aiohttp closes a connection when the client closes its sending side, and answers malformed requests with plain text.
TensorFlow Serving answers a half-closed client, and all errors here are `{"error": …}`.
"""

import asyncio
import contextlib
import logging
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, cast

from aiohttp import web
from aiohttp.http import HttpVersion11

from tf_transformer.export.serving._errors import BadRequest, Overloaded, TimedOut, TooLarge
from tf_transformer.export.serving._responses import dumps, error_body

_log = logging.getLogger(__name__)

ACCEPTED_AT_ONCE = 8
"""Connections accepted before the event loop does anything else: each of them needs a file descriptor."""

SPARE_DESCRIPTORS = 32
"""File descriptors kept for loading versions and for connections that are being accepted or closed."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_HEAD = re.compile(rb"([A-Z]+ \S+ HTTP/1\.1\r\n)((?:[^\r\n]+\r\n)*)\r\n")
_HOST = re.compile(rb"^host[ \t]*:", re.IGNORECASE | re.MULTILINE)


class Connection(web.RequestHandler):
    """One client. Belongs to an HttpServer."""

    def __init__(self, manager: "HttpServer", **options: Any) -> None:
        super().__init__(manager, **options)
        self.request: web.BaseRequest | None = None  # the request in progress
        self.idle_since = time.monotonic()
        self._at_head = True
        self._half_closed = False

    @property
    def idle(self) -> bool:
        """True if no request is in progress: kept alive, new, or still sending its headers."""
        return self.request is None

    def data_received(self, data: bytes) -> None:
        if self._at_head:
            data = _with_host(data)
            self._at_head = False
        super().data_received(data)

    def begin(self, request: web.BaseRequest) -> None:
        """Note that a request is in progress."""
        self.request = request

    def end(self) -> None:
        """Note that the request in progress is answered."""
        self._at_head = self.request is None or self.request.content.is_eof()
        self.request, self.idle_since = None, time.monotonic()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Keep the connection of a half-closed client until its requests are answered.

        A client that has disconnected looks the same at first. An interim response distinguishes them: its system
        resets the connection.
        """
        # Private API: aiohttp's `_waiter`, `_loop` and `_kwargs`; see tests/unit/test_private_apis.py.
        if self._waiter is not None and not self._waiter.done():
            return None  # no request came: close
        self._half_closed = True
        self.close()
        self._loop.call_later(0.01, self._probe)
        return True

    def _probe(self) -> None:
        request = self.request
        if self.transport is None:
            return
        if request is None or not request.content.is_eof():  # the rest of the body cannot arrive any more
            self.transport.close()
        elif request.version >= HttpVersion11 and request.writer.output_size == 0:
            self.transport.write(_CONTINUE)
            self._watch_reset(0.02)

    def _watch_reset(self, seconds: float) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        sock = self.transport.get_extra_info("socket")
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
        else:
            self._loop.call_later(seconds, self._watch_reset, min(2 * seconds, 1.0))

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """The answer to a request that aiohttp could not read, or whose handler failed."""
        if status >= 500 and exc is not None and not isinstance(exc, ConnectionError):
            _log.error("a request failed: %s: %s", type(exc).__name__, exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the response is incomplete")
        reason = (message or str(exc or "") or "the request failed").split("\n")[0]
        response = json_response(status, error_body(f"Malformed request: {reason}" if status < 500 else reason))
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Write one line: what a client sends is no reason for a traceback."""
        _log.debug(*args, **kw)


def _with_host(data: bytes) -> bytes:
    """The head of a request with a Host header: TensorFlow Serving needs none, aiohttp does."""
    match = _HEAD.match(data)
    if match is None or _HOST.search(match[2]):
        return data
    return match[1] + b"Host: localhost\r\n" + data[match.end(1) :]


class HttpServer(web.Server):
    """Answers requests with `handler`, on at most `max_connections` connections.

    When there are more, the one that has been idle for longest is closed; if none is idle, the new one is rejected. A
    client that does not read an answer (or a part of a large one) within `write_seconds` is disconnected.
    """

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        max_connections: int,
        write_seconds: float = 60.0,
        **kw: Any,
    ) -> None:
        super().__init__(self._handle, handler_cancellation=True, auto_decompress=False, **kw)
        self.max_connections = max_connections
        self.write_seconds = write_seconds
        self._handler = handler
        self._open: dict[Connection, asyncio.Transport] = {}

    def __call__(self) -> Connection:
        return Connection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        connection = cast(Connection, handler)
        self._open[connection] = transport
        if len(self._open) > self.max_connections:
            self._make_room(connection)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._open.pop(cast(Connection, handler), None)

    def _make_room(self, newest: Connection) -> None:
        idle = [each for each in self._open if each.idle and each is not newest]
        if idle:
            leaving = min(idle, key=lambda each: each.idle_since)
        else:
            leaving = newest
            body = dumps(error_body(f"the server has {self.max_connections} connections in use: try again later"))
            head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            self._open[newest].write(head.encode() + b"\r\nConnection: close\r\n\r\n" + body)
        self._open.pop(leaving)
        leaving.force_close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast(Connection, request.protocol)
        connection.begin(request)
        try:
            response = await self._handler(request)
            # Here and not after the handler: a connection that is still being written to is not idle.
            async with written_within(request, self.write_seconds):
                await response.prepare(request)
                await response.write_eof()
            return response
        finally:
            connection.end()


@contextlib.asynccontextmanager
async def written_within(request: web.BaseRequest, seconds: float) -> AsyncIterator[None]:
    """Drop the connection of a client that does not read its answer in time."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionError("the client does not read its answer") from None


async def listen(server: HttpServer, host: str, port: int) -> asyncio.Server:
    """Listen for connections.

    asyncio accepts as many connections at once as the queue may hold, and each takes a descriptor before any other
    can be closed: it is given a small queue, the system a large one.
    """
    with _naming(host, port):
        listening = await asyncio.get_running_loop().create_server(server, host, port, backlog=ACCEPTED_AT_ONCE)
    for each in listening.sockets:
        with socket.socket(fileno=os.dup(each.fileno())) as same:
            same.listen(1024)
    return listening


async def check_address(host: str, port: int) -> None:
    """Raise OSError if `listen` would fail now: the port is in use, or the host unknown."""
    with _naming(host, port):
        bound = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)
    bound.close()


@contextlib.contextmanager
def _naming(host: str, port: int) -> Iterator[None]:
    """Name the address in errors of the system."""
    try:
        yield
    except (OSError, UnicodeError) as error:  # the latter for a host that is no name
        number = None if isinstance(error, socket.gaierror | UnicodeError) else error.errno
        reason = getattr(error, "strerror", None) or str(error) if number is None else os.strerror(number)
        raise OSError(
            f"Expected an address of this machine that is free. Received: host {host}, port {port} ({reason}). Choose "
            "another --host or --port."
        ) from error


def connections_for_descriptors(wanted: int) -> int:
    """Number of connections that the limit of open files leaves room for, at most `wanted`."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        used = len(os.listdir("/proc/self/fd"))
    except (ImportError, OSError, ValueError):
        return wanted
    return wanted if limit < 0 else max(4, min(wanted, limit - used - SPARE_DESCRIPTORS))


def raise_descriptor_limit(wanted: int) -> None:
    """Raise the limit of open files where the system allows it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < target:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def json_response(status: int, body: dict | list, headers: dict | None = None) -> web.Response:
    """A response with a JSON body."""
    return web.Response(status=status, body=dumps(body), content_type="application/json", headers=headers)


class BodyReader:
    """Reads bodies, each of a bounded size in a bounded time, all of them in a bounded amount of memory.

    Args:
        max_bytes: Size of the largest body.
        seconds: Time in which a body has to arrive.
        max_total_bytes: Bytes of all bodies that are being read or waiting to be parsed.
    """

    def __init__(self, max_bytes: int, seconds: float, max_total_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.seconds = seconds
        self.max_total_bytes = max(max_bytes, max_total_bytes)
        self._total = 0

    async def read(self, request: web.BaseRequest) -> bytes:
        """The body as it was sent, compressed or not. Call `release` with it when it is no longer held."""
        if (request.content_length or 0) > self.max_bytes:
            raise self._too_large()
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        body = bytearray()
        try:
            async with asyncio.timeout(self.seconds):
                while chunk := await request.content.readany():
                    self._take(len(chunk))
                    body += chunk
                    if len(body) > self.max_bytes:
                        raise self._too_large()
        except BaseException as error:
            self._total -= len(body)
            if isinstance(error, TimeoutError):
                raise TimedOut(f"the body of the request did not arrive within {self.seconds:g} seconds") from None
            if isinstance(error, web.RequestPayloadError):
                raise BadRequest(f"the body of the request cannot be read: {error}") from error
            raise
        return bytes(body)

    def release(self, body: bytes) -> None:
        """Note that a body is no longer held."""
        self._total -= len(body)

    def _take(self, size: int) -> None:
        if self._total + size > self.max_total_bytes:
            raise Overloaded(f"the server holds {self._total} bytes of requests and no room for more: try again later")
        self._total += size

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the request is larger than {self.max_bytes} bytes: send fewer rows")
