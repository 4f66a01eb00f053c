"""A tf.data service on loopback: a dispatcher and workers, each in its own process."""

import contextlib
import os
import socket
import subprocess
import sys
import time

_DISPATCHER = """
import sys, tensorflow as tf
service = tf.data.experimental.service
config = service.DispatcherConfig(port=int(sys.argv[1]), worker_addresses=sys.argv[2:], worker_timeout_ms=120_000)
service.DispatchServer(config).join()
"""
_WORKER = """
import sys, tensorflow as tf
service = tf.data.experimental.service
config = service.WorkerConfig(
    dispatcher_address=sys.argv[1], worker_address=sys.argv[2], port=int(sys.argv[2].rpartition(":")[2]),
    heartbeat_interval_ms=200,
)
service.WorkerServer(config).join()
"""


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class RunningDataService:
    """Within `with`, a dispatcher at `address` and two workers that can be killed and restarted."""

    def __init__(self, workers: int = 2):
        port, *ports = free_ports(1 + workers)
        self.address, self._workers = f"grpc://127.0.0.1:{port}", [f"127.0.0.1:{own}" for own in ports]
        self._processes: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> "RunningDataService":
        self._start("dispatcher", _DISPATCHER, self.address.rpartition(":")[2], *self._workers)
        for number in range(len(self._workers)):
            self.start_worker(number)
        return self

    def __exit__(self, *_) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def start_worker(self, number: int) -> None:
        address = self._workers[number]
        self._start(f"worker {number}", _WORKER, self.address.removeprefix("grpc://"), address)

    def kill_worker(self, number: int) -> None:
        process = self._processes.pop(f"worker {number}")
        process.kill()
        process.wait()

    def _start(self, name: str, code: str, *arguments: str) -> None:
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._processes[name] = subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment)
        self._wait_for(arguments[0] if name == "dispatcher" else arguments[1].rpartition(":")[2])

    @staticmethod
    def _wait_for(port: str, seconds: float = 120.0) -> None:
        until = time.monotonic() + seconds
        while True:
            try:
                socket.create_connection(("127.0.0.1", int(port)), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < until, f"nothing listens at port {port}"
                time.sleep(0.1)
