"""Dynamic batching: requests that are there at the same time share one call of the model.

A batch opens with its first request and leaves when it is full, or when it has waited long enough and a worker
is free. While every worker is busy it stays open and grows, so that a loaded server makes large batches and an
idle one answers at once. Rows are merged along dimension 0 and nothing is padded.
"""

import asyncio
import contextlib
import dataclasses
from concurrent.futures import Executor

import numpy as np

from tf_transformer.export.serving._rest import BadRequest


class Overloaded(BadRequest):
    """Raised when more rows are waiting than the queue holds."""

    status = 503


@dataclasses.dataclass(frozen=True)
class BatchingOptions:
    """How requests are merged.

    Attributes:
        max_batch_size: Rows in one call of the model; 1 turns merging off. Larger requests are split where the
            signature allows it.
        timeout: Seconds that the first request of a batch waits for others while a worker is free.
        max_waiting_rows: Rows in the queue before requests are turned away.
        workers: Calls of the model that run at the same time.
    """

    max_batch_size: int = 64
    timeout: float = 0.002
    max_waiting_rows: int = 8192
    workers: int = 2

    def __post_init__(self):
        for name in ("max_batch_size", "max_waiting_rows", "workers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but is {getattr(self, name)}")


class _Batch:
    """Requests on their way to one call."""

    def __init__(self):
        self.requests: list[tuple[dict[str, np.ndarray], int, asyncio.Future]] = []
        self.rows = 0
        self.full = asyncio.Event()

    def add(self, tensors, rows: int) -> asyncio.Future:
        future = asyncio.get_running_loop().create_future()
        self.requests.append((tensors, rows, future))
        self.rows += rows
        return future


class Batcher:
    """Calls signatures on a pool of workers, merging what may be merged. Lives in one event loop."""

    def __init__(self, options: BatchingOptions, executor: Executor):
        self.options = options
        self._executor = executor
        self._workers = asyncio.Semaphore(options.workers)
        self._open: dict[tuple, _Batch] = {}
        self._tasks: set[asyncio.Task] = set()
        self._waiting_rows = 0

    async def run(self, signature, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs a signature on arrays and returns its outputs, possibly in one call with other requests."""
        rows = _rows(tensors) if signature.mergeable else None
        if self._waiting_rows + (rows or 1) > self.options.max_waiting_rows and self._waiting_rows:
            raise Overloaded(f"the queue holds {self._waiting_rows} rows and no room for more: try again later")
        self._waiting_rows += rows or 1
        try:
            if not rows or self.options.max_batch_size == 1:
                return await self._call(signature, tensors)
            if rows > self.options.max_batch_size:
                return await self._run_parts(signature, tensors, rows)
            return await self._join_batch(signature, tensors, rows)
        finally:
            self._waiting_rows -= rows or 1

    async def _run_parts(self, signature, tensors, rows: int):
        size = self.options.max_batch_size
        parts = [{name: each[at : at + size] for name, each in tensors.items()} for at in range(0, rows, size)]
        answers = await asyncio.gather(*(self._join_batch(signature, part, _rows(part)) for part in parts))
        return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}

    async def _join_batch(self, signature, tensors, rows: int):
        key = (signature, *sorted((name, each.shape[1:]) for name, each in tensors.items()))
        batch = self._open.get(key)
        if batch is not None and batch.rows + rows > self.options.max_batch_size:
            self._close(key)
            batch = None
        if batch is None:
            batch = self._open[key] = _Batch()
            task = asyncio.create_task(self._run_batch(key, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        answer = batch.add(tensors, rows)
        if batch.rows == self.options.max_batch_size:
            self._close(key)
        return await answer

    def _close(self, key) -> None:
        self._open.pop(key).full.set()

    async def _run_batch(self, key, batch: _Batch) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(batch.full.wait(), self.options.timeout)
        async with self._workers:
            if self._open.get(key) is batch:
                self._close(key)
            await self._answer(key[0], batch.requests)

    async def _answer(self, signature, requests) -> None:
        """Answers every request of a batch; when the merged call fails, each alone, so that one cannot hurt others."""
        merged = {name: np.concatenate([tensors[name] for tensors, _, _ in requests]) for name in requests[0][0]}
        try:
            outputs = await self._in_thread(signature, merged)
        except Exception as error:
            if len(requests) == 1:
                _settle(requests[0][2], error=error)
                return
            for request in requests:
                await self._answer(signature, [request])
            return
        start = 0
        for _, rows, future in requests:
            _settle(future, {name: each[start : start + rows] for name, each in outputs.items()})
            start += rows

    async def _call(self, signature, tensors):
        async with self._workers:
            return await self._in_thread(signature, tensors)

    async def _in_thread(self, signature, tensors):
        return await asyncio.get_running_loop().run_in_executor(self._executor, signature, tensors)


def _rows(tensors: dict[str, np.ndarray]) -> int:
    sizes = {name: each.shape[0] for name, each in tensors.items()}
    if len(set(sizes.values())) > 1:
        raise BadRequest(f"the inputs must have the same number of rows, but have {sizes}")
    return next(iter(sizes.values()), 0)


def _settle(future: asyncio.Future, result=None, error=None) -> None:
    if future.done():  # its client went away
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
