"""A ModelServer in a thread of the test's own process, and plain HTTP to talk to it."""

import contextlib
import http.client
import json
import random
import threading

from tf_transformer.export.serving._server import ModelServer, ServerOptions, server_in_thread

GUARD_SECONDS = 1200
"""Limit of every wait: ends a hang, and is far beyond what a loaded machine needs."""


class Connection:
    """One kept-alive connection to a server's model."""

    def __init__(self, port: int, name: str = "toy"):
        self.model = f"/v1/models/{name}"
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD_SECONDS)

    def send(self, method: str, path: str, body: bytes | None = None, headers=()) -> tuple[int, dict]:
        """The status and the JSON of an answer; `path` is under the model unless it begins with a slash of its own."""
        self._http.request(method, path, body, dict(headers))
        response = self._http.getresponse()
        return response.status, json.loads(response.read())

    def predict(self, body, version: int | None = None) -> tuple[int, dict]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        path = self.model if version is None else f"{self.model}/versions/{version}"
        return self.send("POST", f"{path}:predict", data)

    def translate(self, *texts) -> list[str]:
        status, answer = self.predict({"instances": list(texts)})
        assert status == 200, answer
        return answer["predictions"]

    def close(self):
        self._http.close()


class RunningServer:
    """A started server: its port, and connections to it."""

    def __init__(self, server: ModelServer):
        self.server = server
        self.port = server.port

    def connect(self) -> Connection:
        return Connection(self.port, self.server.name)


@contextlib.contextmanager
def running_server(base, name: str = "toy", **options):
    """Serves `base` on a free port of the loopback while the block runs."""
    options = ServerOptions(port=0, **{"poll_seconds": 0.05, **options})
    with server_in_thread(base, name, options) as server:
        yield RunningServer(server)


def hammer(running: RunningServer, clients: int, requests: int, mark: str) -> list:
    """Many clients at once, each with rows that only it sends, some of them with a row the model rejects.

    Args:
        clients: number of connections at the same time.
        requests: number of requests per client.

    Returns:
        The answers that were not those one client alone gets.
    """
    faults, answered = [], [0] * clients

    def client(number):
        connection, chance = running.connect(), random.Random(number)
        for _ in range(requests):
            texts = [f"client {number} {chance.random()}" for _ in range(chance.randrange(1, 7))]
            spoiled = chance.random() < 0.2
            body = {"signature_name": "strict", "instances": [*texts, "bad"] if spoiled else texts}
            status, answer = connection.predict(body)
            if spoiled:
                right = status == 400 and "a bad row" in answer["error"]
            else:
                right = (status, answer) == (200, {"predictions": [mark + text.upper() for text in texts]})
            if not right:
                faults.append((body, status, answer))
            answered[number] += 1

    threads = [threading.Thread(target=client, args=[number]) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answered == [requests] * clients, "a client ended early"
    return faults
