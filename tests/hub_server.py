"""A loopback server with the paths of the Hugging Face hub and of a file server, and faults on request."""

import contextlib
import dataclasses
import hashlib
import http.server
import json
import pathlib
import threading
import urllib.parse
from collections.abc import Iterator

COMMIT = "4" * 40
LARGE = (".safetensors", ".bin", ".h5", ".npz", ".spm")


@dataclasses.dataclass
class HubServer:
    """State of the server: its files, the faults still to come, and the requests so far.

    Attributes:
        url: its address.
        repositories: folders by OWNER/NAME.
        files: contents by path, for plain downloads.
        faults: by file name, the next faults: a status, "truncated" (half of the bytes) or "changed" (other bytes).
        requests: (method, path, Range header) of all requests.
        card: cardData of every repository.
    """

    url: str = ""
    repositories: dict[str, pathlib.Path] = dataclasses.field(default_factory=dict)
    files: dict[str, bytes] = dataclasses.field(default_factory=dict)
    faults: dict[str, list] = dataclasses.field(default_factory=dict)
    requests: list[tuple[str, str, str | None]] = dataclasses.field(default_factory=list)
    card: dict = dataclasses.field(default_factory=lambda: {"license": "cc-by-4.0"})

    def downloads(self, name: str) -> list[str | None]:
        """The Range headers of the GET requests of a file."""
        return [asked for method, path, asked in self.requests if method == "GET" and path.endswith(f"/{name}")]

    def fault(self, name: str) -> object:
        return self.faults[name].pop(0) if self.faults.get(name) else None

    def info(self, repository: str) -> dict:
        """The hub's description of a repository."""
        siblings = []
        for file in sorted(self.repositories[repository].iterdir()):
            data = file.read_bytes()
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            entry = {"rfilename": file.name, "size": len(data), "blobId": blob}
            if file.suffix in LARGE:
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            siblings.append(entry)
        return {"id": repository, "modelId": repository, "sha": COMMIT, "siblings": siblings, "cardData": self.card}


@contextlib.contextmanager
def hub_server() -> Iterator[HubServer]:
    """Runs a server on a free port of the loopback."""
    hub = HubServer()

    class Handler(_Handler):
        server_hub = hub

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_hub: HubServer

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        hub, path = self.server_hub, urllib.parse.urlsplit(self.path).path
        hub.requests.append((self.command, path, self.headers.get("Range")))
        parts = path.strip("/").split("/")
        fault = hub.fault(parts[-1] if parts[0] != "api" else "api") if body or parts[0] == "api" else None
        if isinstance(fault, int):
            self._send(fault, b"busy", body, {"Retry-After": "0"})
        elif path in hub.files:
            self._file(hub.files[path], fault, body, {})
        elif parts[0] == "api":
            self._api(parts, body)
        elif len(parts) == 5 and parts[2] == "resolve" and "/".join(parts[:2]) in hub.repositories:
            self._resolve(hub.repositories["/".join(parts[:2])] / parts[4], parts[3], fault, body)
        else:
            self._send(404, b"", body, {"X-Error-Code": "RepoNotFound"})

    def _api(self, parts: list[str], body: bool) -> None:
        repository, revision = "/".join(parts[2:4]), parts[5] if len(parts) > 5 else "main"
        if repository not in self.server_hub.repositories:
            self._send(404, b"{}", body, {"X-Error-Code": "RepoNotFound"})
        elif revision not in ("main", "v1", COMMIT):
            self._send(404, b"{}", body, {"X-Error-Code": "RevisionNotFound"})
        else:
            info = json.dumps(self.server_hub.info(repository)).encode()
            self._send(200, info, body, {"Content-Type": "application/json"})

    def _resolve(self, file: pathlib.Path, revision: str, fault: object, body: bool) -> None:
        if not file.is_file() or revision not in ("main", "v1", COMMIT):
            self._send(404, b"", body, {"X-Error-Code": "EntryNotFound"})
            return
        data = file.read_bytes()
        self._file(data, fault, body, {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'})

    def _file(self, data: bytes, fault: object, body: bool, headers: dict[str, str]) -> None:
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "Accept-Ranges": "bytes"} | headers
        start, status = 0, 200
        asked = self.headers.get("Range")
        if asked and self.headers.get("If-Range", headers["ETag"]) == headers["ETag"]:
            start, status = int(asked.removeprefix("bytes=").partition("-")[0]), 206
            if start >= len(data):
                self._send(416, b"", body, {"Content-Range": f"bytes */{len(data)}"})
                return
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        if fault == "changed":
            data = bytes([data[0] ^ 1]) + data[1:]
        self._send(status, data[start:], body, headers, truncated=fault == "truncated")

    def _send(self, status: int, data: bytes, body: bool, headers: dict[str, str], truncated: bool = False) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(data))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            with contextlib.suppress(ConnectionError):  # a client that has read enough
                self.wfile.write(data[: len(data) // 2] if truncated else data)
        if truncated:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(1)
