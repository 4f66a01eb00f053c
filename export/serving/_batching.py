"""Dynamic batching: requests that wait at the same time share one call of the model.

A batch opens with its first request. It is run when it is full, or when it has waited long enough and a worker is
free. While every worker is busy it stays open and grows, so that a loaded server runs large batches and an idle one
answers immediately. Rows are merged along dimension 0 and nothing is padded.

A request of more rows than a batch is run in parts, at most one per worker at a time, so that other requests wait for
one part and not for all of them. A request whose client has disconnected is dropped before it reaches the model.
"""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

import numpy as np

from tf_transformer.export.serving._errors import BadRequest, Overloaded

if TYPE_CHECKING:
    from tf_transformer.export.serving._loading import ServedSignature


Tensors = dict[str, np.ndarray]
"""Arrays by the name of an input or an output."""


@dataclasses.dataclass(frozen=True)
class BatchingOptions:
    """Options for merging and splitting requests.

    Attributes:
        max_batch_size: Rows in one call of the model; 1 turns merging off. Larger requests are split where the
            signature allows it.
        max_padded_rows: Rows in one call of a signature whose outputs are padded to the longest row (`attention`,
            `alignment`):
            such calls are not merged, and need much memory per row.
        timeout: Seconds that the first request of a batch waits for others while a worker is free.
        max_waiting_rows: Rows in the queue before requests are rejected.
        workers: Calls of the model that run at the same time.
    """

    max_batch_size: int = 64
    max_padded_rows: int = 8
    timeout: float = 0.002
    max_waiting_rows: int = 8192
    workers: int = 2

    def __post_init__(self) -> None:
        for name in ("max_batch_size", "max_padded_rows", "max_waiting_rows", "workers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1. Received: {getattr(self, name)}")


class _Batch:
    """Requests that will share one call."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, np.ndarray], int, asyncio.Future]] = []
        self.rows = 0
        self.full = asyncio.Event()

    def add(self, tensors: Tensors, rows: int) -> asyncio.Future:
        future = asyncio.get_running_loop().create_future()
        self.requests.append((tensors, rows, future))
        self.rows += rows
        return future


class Batcher:
    """Calls signatures on a pool of workers, merging what may be merged. Belongs to one event loop.

    Args:
        options: A BatchingOptions.
        executor: Where signatures run; it has at least as many threads as there are workers.
        observe: Called with the seconds that each call of the model took, and its signature.
    """

    def __init__(self, options: BatchingOptions, executor: Executor, observe: Callable | None = None) -> None:
        self.options = options
        self._executor = executor
        self._observe = observe
        self._workers = asyncio.Semaphore(options.workers)
        self._open: dict[tuple, _Batch] = {}
        self._tasks: set[asyncio.Task] = set()
        self._waiting_rows = 0

    async def run(self, signature: "ServedSignature", tensors: Tensors) -> Tensors:
        """Run a signature on arrays and return its outputs, possibly in one call with other requests."""
        rows = _rows(tensors) if signature.mergeable or signature.padded else None
        if self._waiting_rows + (rows or 1) > self.options.max_waiting_rows and self._waiting_rows:
            raise Overloaded(f"the queue holds {self._waiting_rows} rows and no room for more: try again later")
        self._waiting_rows += rows or 1
        try:
            return await self._run(signature, tensors, rows)
        finally:
            self._waiting_rows -= rows or 1

    async def _run(self, signature: "ServedSignature", tensors: Tensors, rows: int | None) -> Tensors:
        if not rows or (signature.mergeable and self.options.max_batch_size == 1):
            return await self._call(signature, tensors)
        size = self.options.max_batch_size if signature.mergeable else self.options.max_padded_rows
        run = self._join_batch if signature.mergeable else self._call
        if rows <= size:
            return await run(signature, tensors)
        parts = [{name: each[at : at + size] for name, each in tensors.items()} for at in range(0, rows, size)]
        answers = await self._run_parts(signature, run, parts)
        return {name: _concatenate([answer[name] for answer in answers]) for name in answers[0]}

    async def _run_parts(
        self,
        signature: "ServedSignature",
        run: Callable[["ServedSignature", Tensors], Awaitable[Tensors]],
        parts: list[dict],
    ) -> list[dict]:
        answers: list[dict] = [{} for _ in parts]
        waiting = iter(enumerate(parts))

        async def work() -> None:
            for number, part in waiting:
                answers[number] = await run(signature, part)

        try:
            await asyncio.gather(*(work() for _ in range(self.options.workers)))
        finally:
            for _ in waiting:  # after an error, the other workers stop at their next part
                pass
        return answers

    async def _join_batch(self, signature: "ServedSignature", tensors: Tensors) -> Tensors:
        rows = _rows(tensors)
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

    def _close(self, key: tuple) -> None:
        self._open.pop(key).full.set()

    async def _run_batch(self, key: tuple, batch: _Batch) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(batch.full.wait(), self.options.timeout)
        async with self._workers:
            if self._open.get(key) is batch:
                self._close(key)
            await self._answer(key[0], batch.requests)

    async def _answer(self, signature: "ServedSignature", requests: list[tuple[Tensors, int, asyncio.Future]]) -> None:
        """Answer every request of a batch. If the merged call fails, each request is run alone: one bad row affects
        only its own request. A request that was cancelled (its client disconnected) is dropped."""
        requests = [each for each in requests if not each[2].done()]
        if not requests:
            return
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

    async def _call(self, signature: "ServedSignature", tensors: Tensors) -> Tensors:
        async with self._workers:
            return await self._in_thread(signature, tensors)

    async def _in_thread(self, signature: "ServedSignature", tensors: Tensors) -> Tensors:
        begun = time.perf_counter()
        answer = await asyncio.get_running_loop().run_in_executor(self._executor, signature, tensors)
        if self._observe is not None:
            self._observe(signature, time.perf_counter() - begun)
        return answer


def _rows(tensors: Tensors) -> int:
    sizes = {name: each.shape[0] for name, each in tensors.items()}
    if len(set(sizes.values())) > 1:
        raise BadRequest(f"expected the same number of rows in every input. Received: {sizes}")
    return next(iter(sizes.values()), 0)


def _concatenate(arrays: list[np.ndarray]) -> np.ndarray:
    """Arrays one after the other, padded to the size of the largest as a single call pads its rows.

    Padding is "" for strings, 0 for floats, and -1 for integers.
    """
    shape = tuple(max(sizes) for sizes in zip(*(array.shape[1:] for array in arrays)))
    if all(array.shape[1:] == shape for array in arrays):
        return np.concatenate(arrays)
    rows = sum(len(array) for array in arrays)
    padding: bytes | int = b"" if arrays[0].dtype == object else -1 if arrays[0].dtype.kind == "i" else 0
    joined = np.full((rows, *shape), padding, arrays[0].dtype)
    start = 0
    for array in arrays:
        joined[(slice(start, start + len(array)), *(slice(size) for size in array.shape[1:]))] = array
        start += len(array)
    return joined


def _settle(future: asyncio.Future, result: Tensors | None = None, error: Exception | None = None) -> None:
    if future.done():  # its client disconnected
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
