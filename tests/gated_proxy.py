"""A proxy in front of a server that records requests, and holds or replaces answers where a test says so."""

import contextlib
import http.client
import http.server
import json
import threading

PATIENCE = 300


class GatedProxy(http.server.ThreadingHTTPServer):
    """Passes requests on to a port of the loopback.

    Attributes:
        port: Where it listens.
        bodies: The JSON of the `:predict` requests, in the order of their arrival.
        rule: Called with the JSON of each; gives None, an Event to wait for before the answer, or an answer as
            (status, headers, JSON).
        held: Numbers of held requests whose answers were written, or whose clients had disconnected.
    """

    daemon_threads = True

    def __init__(self, behind: int):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port = self.server_address[1]
        self.behind = behind
        self.bodies: list[dict] = []
        self.rule = lambda body: None
        self.held = threading.Semaphore(0)

    def texts(self, signature: str) -> list[str]:
        """The texts of all requests for a signature."""
        return [row["text"] for body in self.bodies if body["signature_name"] == signature for row in body["instances"]]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: GatedProxy

    def do_GET(self):
        self._pass_on(b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        parsed = json.loads(body)
        self.server.bodies.append(parsed)
        verdict = self.server.rule(parsed)
        if isinstance(verdict, tuple):
            status, headers, answer = verdict
            self._write(status, {"Content-Type": "application/json", **headers}, json.dumps(answer).encode())
        elif verdict is None:
            self._pass_on(body)
        else:
            verdict.wait(PATIENCE)
            self._pass_on(body)
            self.server.held.release()

    def _pass_on(self, body: bytes):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=PATIENCE)
        connection.request(self.command, self.path, body, {"Content-Type": self.headers.get("Content-Type", "")})
        response = connection.getresponse()
        kept = ("Content-Type", "Content-Security-Policy", "ETag", "Cache-Control")
        self._write(
            response.status, {key: response.headers[key] for key in kept if key in response.headers}, response.read()
        )
        connection.close()

    def _write(self, status: int, headers: dict, body: bytes):
        with contextlib.suppress(ConnectionError):  # the page has cancelled the request
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def gated_proxy(behind: int):
    """A GatedProxy while the block runs."""
    with GatedProxy(behind) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
