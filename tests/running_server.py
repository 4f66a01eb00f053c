"""A server in a thread of the test's own process or in a process of its own, and plain HTTP to talk to it."""

import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
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


class ServeProcess:
    """The `serve` command in a process of its own: its port, its memory and what it wrote to stderr."""

    def __init__(self, process: subprocess.Popen):
        self.process = process
        self.lines: list[str] = []
        self._listening = threading.Event()
        self.port = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        if not self._listening.wait(GUARD_SECONDS) or not self.port:
            raise AssertionError(f"the server did not start: {self.lines}")

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if match := re.search(r"listening at http://127\.0\.0\.1:(\d+)/", line):
                self.port = int(match[1])
                self._listening.set()
        self._listening.set()

    def connect(self, name: str = "toy") -> Connection:
        return Connection(self.port, name)

    def megabytes(self, field: str = "VmRSS") -> float:
        """Resident memory now, or with "VmHWM" at its largest."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) / 1024

    def end(self) -> int:
        self.process.terminate()
        code = self.process.wait(GUARD_SECONDS)
        self._reader.join()
        self.process.stderr.close()
        return code


@contextlib.contextmanager
def serve_process(*arguments, open_files: int | None = None):
    """Runs `serve` with these arguments on a free port while the block runs."""

    def limit():
        if open_files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))

    command = [sys.executable, "-m", "tf_transformer.pipelines.serve", *map(str, arguments), "--port", "0"]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=limit)
    try:
        served = ServeProcess(process)
        yield served
        served.end()
    finally:
        process.kill()
        process.wait()


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
