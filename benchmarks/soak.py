"""Soak test of `serve`: many clients, random faults and a new version every minute.

    python -m benchmarks.soak [--minutes 30] [--clients 32] [--json]

The real command serves a small model in a process of its own. Each client sends good requests and, at random, faults:
connections dropped before, within or after a request, slow readers, bodies that break off, malformed and oversized
requests. Every minute a version is published, and every third one is corrupt. The exit code is 0 if no answer was
wrong, none had a status of 500 or above, every good version was served and no corrupt one, and memory was stable.
"""

import argparse
import collections
import dataclasses
import http.client
import json
import pathlib
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from benchmarks.soak_faults import FAULTS

GUARD_SECONDS = 300
TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
STABLE_MEGABYTES = 60


@dataclasses.dataclass
class Tally:
    """Observations of all clients. Counters and lists are safe to append to from threads."""

    latencies: list[float] = dataclasses.field(default_factory=list)
    wrong: list[str] = dataclasses.field(default_factory=list)
    statuses: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    faults: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    signatures: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    versions: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def count(self, counter: collections.Counter, key) -> None:
        with self.lock:
            counter[key] += 1


class Soak:
    """The run: a server, its clients, and the versions that appear meanwhile."""

    def __init__(self, directory: pathlib.Path, seconds: float, clients: int, version_seconds: float, seed: int):
        self.base = directory / "toy"
        self.good = directory / "good"
        self.seconds, self.clients, self.version_seconds, self.seed = seconds, clients, version_seconds, seed
        self.tally = Tally()
        self.published: list[int] = [1]
        self.corrupt: list[int] = []
        self.megabytes: list[float] = []
        self.end = 0.0
        self.process: subprocess.Popen | None = None
        self.port = 0
        self.log: list[str] = []

    def run(self) -> dict:
        write_version(self.good, 1)
        shutil.copytree(self.good, self.base / "1")
        self._start()
        self.end = time.monotonic() + self.seconds
        threads = [threading.Thread(target=self._client, args=[number]) for number in range(self.clients)]
        threads += [threading.Thread(target=self._publish), threading.Thread(target=self._watch_memory)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        states = self._states()
        self.process.terminate()
        code = self.process.wait(GUARD_SECONDS)
        return self._figures(states, code)

    def _start(self) -> None:
        command = [sys.executable, "-m", "tf_transformer.pipelines.cli", "serve", str(self.base), "--port", "0"]
        self.process = subprocess.Popen([*command, "--request-seconds", "5"], stderr=subprocess.PIPE, text=True)
        listening = threading.Event()

        def read():
            for line in self.process.stderr:
                self.log.append(line)
                if match := re.search(r"listening at http://127\.0\.0\.1:(\d+)/", line):
                    self.port = int(match[1])
                    listening.set()
            listening.set()

        threading.Thread(target=read, daemon=True).start()
        if not listening.wait(GUARD_SECONDS) or not self.port:
            raise SystemExit("the server did not start: " + "".join(self.log))

    def _client(self, number: int) -> None:
        chance = random.Random(self.seed * 1000 + number)
        connection = None
        while time.monotonic() < self.end:
            if chance.random() < 0.1:
                self._fault(chance)
                continue
            connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=GUARD_SECONDS)
            try:
                self._ask(connection, chance, number)
            except (OSError, http.client.HTTPException) as error:
                self.tally.wrong.append(f"a good request failed: {type(error).__name__}: {error}")
                connection = None
            if connection is not None and chance.random() < 0.02:
                connection.close()
                connection = None

    def _ask(self, connection: http.client.HTTPConnection, chance: random.Random, number: int) -> None:
        texts = [f"client {number} {chance.random()}" for _ in range(chance.choice([1, 1, 1, 2, 5, 40, 150]))]
        signature = chance.choice(["serving_default"] * 6 + ["nbest", "score", "attention"])
        rows = [{"source": text, "target": text} for text in texts] if signature == "score" else texts
        begun = time.perf_counter()
        body = json.dumps({"signature_name": signature, "instances": rows})
        connection.request("POST", "/v1/models/toy:predict", body)
        response = connection.getresponse()
        answer = json.loads(response.read())
        self.tally.latencies.append(time.perf_counter() - begun)
        self.tally.count(self.tally.statuses, response.status)
        self.tally.count(self.tally.signatures, signature)
        found = answer.get("predictions")
        version = _version(signature, found)
        if response.status != 200 or found != expected(signature, texts, version):
            self.tally.wrong.append(f"{response.status} {signature} {str(answer)[:200]}")
        elif version and int(version) not in self.published:
            self.tally.wrong.append(f"version {version} was never published")
        elif version:
            self.tally.count(self.tally.versions, version)

    def _fault(self, chance: random.Random) -> None:
        kind = chance.choice(FAULTS)
        self.tally.count(self.tally.faults, kind.__name__)
        try:
            with socket.create_connection(("127.0.0.1", self.port), GUARD_SECONDS) as sock:
                status = kind(sock, chance)
        except OSError:
            return
        if status is not None:
            self.tally.count(self.tally.statuses, status)
            if status >= 500:
                self.tally.wrong.append(f"{kind.__name__}: status {status}")

    def _publish(self) -> None:
        """A version at a time by rename; every third one is corrupt."""
        version, begun = 1, time.monotonic()
        while True:
            version += 1
            incoming = self.base / "incoming"
            write_version(incoming, version)
            if self._sleep(begun + (version - 1) * self.version_seconds - time.monotonic()):
                return
            if version % 3 == 0:
                data = incoming / "saved_model.pb"
                data.write_bytes(data.read_bytes()[:-500])
                self.corrupt.append(version)
            else:
                self.published.append(version)
            incoming.rename(self.base / str(version))

    def _watch_memory(self) -> None:
        while not self._sleep(self.seconds / 60):
            self.megabytes.append(self._resident())

    def _resident(self) -> float:
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def _sleep(self, seconds: float) -> bool:
        """Sleeps, at most until the end; returns whether it is reached."""
        time.sleep(max(0.0, min(seconds, self.end - time.monotonic())))
        return time.monotonic() >= self.end

    def _states(self) -> dict[int, str]:
        """The states of the versions when none is being loaded any more."""
        newest = max(self.published + self.corrupt)
        for _ in range(GUARD_SECONDS):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=GUARD_SECONDS)
            connection.request("GET", "/v1/models/toy")
            found = json.loads(connection.getresponse().read())["model_version_status"]
            states = {int(each["version"]): each["state"] for each in found}
            if states.get(newest) in ("AVAILABLE", "END") and "LOADING" not in states.values():
                return states
            time.sleep(1)
        return {}

    def _figures(self, states: dict[int, str], code: int) -> dict:
        """All figures. Growth is that from the second to the last quarter: the first one fills caches."""
        tally, quarter = self.tally, len(self.megabytes) // 4
        growth = statistics.median(self.megabytes[-quarter:]) - statistics.median(self.megabytes[quarter : 2 * quarter])
        cuts = statistics.quantiles(tally.latencies, n=100, method="inclusive")
        figures = {
            "minutes": round(self.seconds / 60, 1),
            "clients": self.clients,
            "requests": len(tally.latencies),
            "p50_ms": round(cuts[49] * 1000, 1),
            "p99_ms": round(cuts[98] * 1000, 1),
            "wrong": len(tally.wrong),
            "first_wrong": tally.wrong[:5],
            "statuses": dict(sorted(tally.statuses.items())),
            "signatures": dict(sorted(tally.signatures.items())),
            "faults": dict(sorted(tally.faults.items())),
            "versions": dict(tally.versions),
            "corrupt_rejected": [each for each in self.corrupt if states.get(each) == "END"],
            "megabytes": [round(each) for each in self.megabytes[:: max(1, len(self.megabytes) // 12)]],
            "growth_megabytes": round(growth, 1),
            "tracebacks": sum("Traceback" in line for line in self.log),
            "exit_code": code,
        }
        figures["passed"] = (
            not tally.wrong
            and not any(status >= 500 for status in tally.statuses)
            and states.get(max(self.published)) == "AVAILABLE"
            and figures["corrupt_rejected"] == self.corrupt
            and growth < STABLE_MEGABYTES
            and (code, figures["tracebacks"]) == (0, 0)
        )
        return figures


def _version(signature: str, predictions) -> str:
    """The version that an answer comes from, in those that begin with it; "" for others, and for what is no answer."""
    try:
        first = predictions[0]["translations"][0] if signature == "nbest" else predictions[0]
        return found[1] if (found := re.match(r"(\d+):", first)) else ""
    except (TypeError, LookupError):
        return ""


def expected(signature: str, texts: list[str], version: str) -> list:
    """The known answer of a version to texts: see `tests/toy_saved_model.py`."""
    upper = [f"{version}:{text.upper()}" for text in texts]
    if signature == "nbest":
        scores = [-0.1, -0.2, -0.3]
        return [
            {"translations": [each] * 3, "scores": scores, "truncated": len(text) > 5}
            for each, text in zip(upper, texts)
        ]
    if signature == "score":
        return [{"score": 4.0 * len(text), "tokens": len(text)} for text in texts]
    if signature == "attention":
        longest = max(map(len, texts))
        return [
            {
                "tokens": [*text, *[""] * (longest - len(text))],
                "weights": [1.0] * len(text) + [0.0] * (longest - len(text)),
            }
            for text in texts
        ]
    return upper


def write_version(directory: pathlib.Path, version: int) -> None:
    """Writes a model that answers "ab" with "<version>:AB", with the checksums of an export."""
    code = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r}); from toy_saved_model import write_toy; "
        f"write_toy({str(directory)!r}, mark='{version}:')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--version-seconds", type=float, default=60.0, help="time between versions")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        soak = Soak(pathlib.Path(directory), args.minutes * 60, args.clients, args.version_seconds, args.seed)
        try:
            figures = soak.run()
        finally:
            if soak.process is not None:
                soak.process.kill()
    print(json.dumps(figures) if args.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))
    return 0 if figures["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
