"""Discrete-event simulation of serving: requests, replicas, and batches as `serve` and TensorFlow Serving make them."""

import dataclasses
import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class ServiceTimes:
    """Measured seconds of calls of the model, by calls at the same time and by rows.

    Args:
        seconds: for each (calls at the same time, rows) the times of several calls.
    """

    def __init__(self, seconds: Mapping[tuple[int, int], Sequence[float]]):
        self._sorted = {key: sorted(times) for key, times in seconds.items()}
        self.calls = max(calls for calls, _ in self._sorted)
        self._rows = {n: sorted(rows for calls, rows in self._sorted if calls == n) for n in range(1, self.calls + 1)}

    @classmethod
    def linear(cls, seconds_per_call: float, seconds_per_row: float, max_rows: int = 64) -> "ServiceTimes":
        """Times of a machine that was not measured: a constant and a part per row."""
        return cls({(1, rows): [seconds_per_call + rows * seconds_per_row] for rows in (1, max_rows)})

    def at(self, calls: int, rows: int, quantile: float) -> float:
        """A quantile of the time of a call; between measured numbers of rows it is interpolated."""
        calls = min(calls, self.calls)
        sizes = self._rows[calls]
        above = next((size for size in sizes if size >= rows), sizes[-1])
        below = next((size for size in reversed(sizes) if size <= rows), sizes[0])
        ends = [self._quantile(self._sorted[calls, size], quantile) for size in (below, above)]
        share = (rows - below) / (above - below) if above > below else 0.0
        return ends[0] + share * (ends[1] - ends[0])

    @staticmethod
    def _quantile(times: Sequence[float], quantile: float) -> float:
        return times[min(len(times) - 1, int(quantile * len(times)))]


@dataclasses.dataclass(frozen=True)
class Server:
    """One replica: how it batches, as `BatchingOptions`, and what a request costs outside the model.

    Attributes:
        max_batch_size: rows of a call.
        timeout: seconds that the first request of a batch waits for others while a worker is free.
        workers: calls at the same time.
        request_seconds: of the event loop for each request, one after another: half on its way in, half on its way out.
    """

    max_batch_size: int = 64
    timeout: float = 0.002
    workers: int = 2
    request_seconds: float = 0.0


@dataclasses.dataclass(eq=False)
class _Batch:
    arrivals: list[tuple[float, int]] = dataclasses.field(default_factory=list)
    queued: bool = False


class _Replica:
    def __init__(self) -> None:
        self.open: _Batch | None = None
        self.queue: deque[_Batch] = deque()
        self.busy = 0
        self.waiting = 0
        self.loop_free = 0.0


class Simulation:
    """Requests of one row to a number of replicas, each to the replica with the fewest requests.

    Args:
        times: of the calls.
        server: of each replica.
        replicas: how many there are.
        seed: of arrivals and times.
    """

    def __init__(self, times: ServiceTimes, server: Server, replicas: int = 1, seed: int = 1):
        self._times, self._server = times, server
        self._replicas = [_Replica() for _ in range(replicas)]
        self._random = random.Random(seed)
        self._events: list[tuple[float, int, Callable, tuple]] = []
        self._order = itertools.count()
        self.latencies: list[float] = []
        self.rows: list[int] = []
        self._now = 0.0
        self._answered: Callable[[float, int], Any] = lambda sent, client: self.latencies.append(self._now - sent)

    def open_loop(self, rate: float, requests: int) -> dict[str, float]:
        """Requests that arrive at random, `rate` per second on average, whatever the answers."""
        moment = 0.0
        for number in range(requests):
            moment += self._random.expovariate(rate)
            self._at(moment, self._arrive, moment, number)
        return self._run()

    def closed_loop(self, clients: int, requests: int) -> dict[str, float]:
        """Clients of one process that each send a request when the one before is answered.

        Their event loop needs as long as the server's for a request.
        """
        left, free, half = requests, 0.0, self._server.request_seconds / 2

        def through_loop(handle: Callable, sent: float, client: int) -> None:
            nonlocal free
            free = max(self._now, free) + half
            self._at(free, handle, sent, client)

        def send(client: int) -> None:
            nonlocal left
            if left > 0:
                left -= 1
                through_loop(self._arrive, self._now, client)

        def received(sent: float, client: int) -> None:
            self.latencies.append(self._now - sent)
            send(client)

        self._answered = lambda sent, client: through_loop(received, sent, client)
        for client in range(clients):
            send(client)
        return self._run()

    def _run(self) -> dict[str, float]:
        while self._events:
            self._now, _, handle, arguments = heapq.heappop(self._events)
            handle(*arguments)
        # The first requests meet empty queues.
        steady = sorted(self.latencies[len(self.latencies) // 10 :])
        cuts = {f"p{cut}_ms": round(1000 * steady[min(len(steady) - 1, len(steady) * cut // 100)], 2)
                for cut in (50, 95, 99)}  # fmt: skip
        mean_rows = sum(self.rows) / len(self.rows)
        return {"requests_per_second": round(len(self.latencies) / self._now, 1), **cuts,
                "rows_per_call": round(mean_rows, 1)}  # fmt: skip

    def _at(self, moment: float, handle: Callable, *arguments: Any) -> None:
        heapq.heappush(self._events, (moment, next(self._order), handle, arguments))

    def _arrive(self, sent: float, client: int) -> None:
        replica = min(self._replicas, key=lambda each: each.waiting)
        replica.waiting += 1
        self._at(self._through_loop(replica), self._join, replica, sent, client)

    def _through_loop(self, replica: _Replica) -> float:
        replica.loop_free = max(self._now, replica.loop_free) + self._server.request_seconds / 2
        return replica.loop_free

    def _join(self, replica: _Replica, sent: float, client: int) -> None:
        if replica.open is None:
            replica.open = _Batch()
            self._at(self._now + self._server.timeout, self._enqueue, replica, replica.open)
        batch = replica.open
        batch.arrivals.append((sent, client))
        if len(batch.arrivals) == self._server.max_batch_size:
            replica.open = None
            self._enqueue(replica, batch)

    def _enqueue(self, replica: _Replica, batch: _Batch) -> None:
        """The batch is full or has waited: it runs on the next free worker, and grows until then if it is not full."""
        if not batch.queued:
            batch.queued = True
            replica.queue.append(batch)
            self._start(replica)

    def _start(self, replica: _Replica) -> None:
        while replica.queue and replica.busy < self._server.workers:
            batch = replica.queue.popleft()
            if replica.open is batch:
                replica.open = None
            replica.busy += 1
            self.rows.append(len(batch.arrivals))
            seconds = self._times.at(replica.busy, len(batch.arrivals), self._random.random())
            self._at(self._now + seconds, self._finish, replica, batch)

    def _finish(self, replica: _Replica, batch: _Batch) -> None:
        replica.busy -= 1
        replica.waiting -= len(batch.arrivals)
        for sent, client in batch.arrivals:
            self._at(self._through_loop(replica), self._answered, sent, client)
        self._start(replica)


def replicas_for(
    times: ServiceTimes, server: Server, rate: float, p99_ms: float, requests: int = 20_000
) -> tuple[int | None, dict[str, float]]:
    """The fewest replicas whose 99th percentile is below `p99_ms`, and their figures; None if no number suffices."""

    def figures(replicas: int) -> dict[str, float]:
        return Simulation(times, server, replicas).open_loop(rate, requests)

    if 1000 * (times.at(1, 1, 0.99) + server.timeout) >= p99_ms:
        return None, {}
    below, enough = 0, 1
    while (found := figures(enough))["p99_ms"] >= p99_ms:
        below, enough = enough, 2 * enough
    while enough - below > 1:
        middle = (below + enough) // 2
        tried = figures(middle)
        if tried["p99_ms"] < p99_ms:
            enough, found = middle, tried
        else:
            below = middle
    return enough, found
