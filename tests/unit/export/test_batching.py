"""Merging of requests, with a signature that writes down what it was called with."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tf_transformer.export.serving._batching import Batcher, BatchingOptions
from tf_transformer.export.serving._errors import BadRequest, Overloaded

GUARD_SECONDS = 1200
"""Limit of every wait: ends a hang."""


class Doubling:
    """Answers x with 2x, rejects negative numbers, and can be held until the test lets it go."""

    mergeable = True
    padded = False

    def __init__(self):
        self.calls = []
        self.entered, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def __call__(self, tensors):
        self.entered.set()
        self.gate.wait(GUARD_SECONDS)
        self.calls.append(tensors["x"].shape)
        if (tensors["x"] < 0).any():
            raise BadRequest("negative")
        return {"y": tensors["x"] * 2}


def run(signature, requests, before=None, **options):
    """Sends all requests at once and returns the answers, errors among them."""

    async def main():
        with ThreadPoolExecutor(4) as executor:
            batcher = Batcher(BatchingOptions(**{"timeout": 0.01, "workers": 1, **options}), executor)
            tasks = [asyncio.create_task(batcher.run(signature, {"x": np.array(each)})) for each in requests]
            if before is not None:
                await before()
            return await asyncio.gather(*tasks, return_exceptions=True)

    return [each["y"].tolist() if isinstance(each, dict) else each for each in asyncio.run(main())]


def test_requests_of_one_moment_share_a_call_and_get_their_own_rows():
    signature = Doubling()
    assert run(signature, [[1, 2], [3], [4, 5, 6]]) == [[2, 4], [6], [8, 10, 12]]
    assert signature.calls == [(6,)]


def test_a_batch_is_never_larger_than_the_limit():
    signature = Doubling()
    assert run(signature, [[each] * 3 for each in range(7)], max_batch_size=7) == [[2 * each] * 3 for each in range(7)]
    assert [shape[0] for shape in signature.calls] == [6, 6, 6, 3]


def test_a_larger_request_is_split():
    signature = Doubling()
    assert run(signature, [list(range(17))], max_batch_size=5) == [[2 * each for each in range(17)]]
    assert [shape[0] for shape in signature.calls] == [5, 5, 5, 2]


def test_what_cannot_be_merged_is_called_alone():
    signature = Doubling()
    signature.mergeable = False
    assert run(signature, [[1], [2]]) == [[2], [4]]
    assert signature.calls == [(1,), (1,)]


def test_one_at_a_time_when_merging_is_off():
    signature = Doubling()
    run(signature, [[1], [2], [3]], max_batch_size=1)
    assert signature.calls == [(1,), (1,), (1,)]


def test_rows_of_other_shapes_go_in_another_batch():
    signature = Doubling()
    assert run(signature, [[[1, 2]], [[1, 2, 3]], [[3, 4]]]) == [[[2, 4]], [[2, 4, 6]], [[6, 8]]]
    assert sorted(signature.calls) == [(1, 3), (2, 2)]


def test_one_bad_request_does_not_hurt_its_neighbours():
    signature = Doubling()
    first, bad, last = run(signature, [[1], [-1], [2]])
    assert (first, last) == ([2], [4])
    assert isinstance(bad, BadRequest) and str(bad) == "negative"
    assert signature.calls == [(3,), (1,), (1,), (1,)]


def test_an_empty_batch_is_answered_at_once():
    signature = Doubling()
    assert run(signature, [[]], timeout=3600.0) == [[]]


def test_a_request_after_a_batch_opens_another():
    async def main():
        signature = Doubling()
        with ThreadPoolExecutor(1) as executor:
            batcher = Batcher(BatchingOptions(timeout=0.0), executor)
            for value in (3, 5):
                answer = await asyncio.wait_for(batcher.run(signature, {"x": np.array([value])}), GUARD_SECONDS)
                assert answer["y"].tolist() == [2 * value]
        assert signature.calls == [(1,), (1,)]

    asyncio.run(main())


def test_a_batch_grows_while_the_worker_is_busy():
    signature = Doubling()
    signature.gate.clear()

    async def let_go():
        await asyncio.to_thread(signature.entered.wait, GUARD_SECONDS)
        signature.gate.set()

    # The first batch of 4 leaves at once and holds the only worker; the rest has all the time to gather.
    run(signature, [[each] for each in range(4 + 3)], before=let_go, max_batch_size=4, timeout=0.0)
    assert [shape[0] for shape in signature.calls] == [4, 3]


def test_a_full_queue_turns_requests_away():
    answers = run(Doubling(), [[1, 2], [3, 4], [5, 6]], max_waiting_rows=5)
    assert answers[:2] == [[2, 4], [6, 8]]
    assert isinstance(answers[2], Overloaded) and answers[2].status == 503


@pytest.mark.parametrize("field", ["max_batch_size", "max_padded_rows", "max_waiting_rows", "workers"])
def test_options_are_checked(field):
    with pytest.raises(ValueError, match=f"{field} must be at least 1. Received: 0"):
        BatchingOptions(**{field: 0})


def test_requests_of_disconnected_clients_never_reach_the_model():
    signature = Doubling()
    signature.gate.clear()

    async def main():
        with ThreadPoolExecutor(1) as executor:
            batcher = Batcher(BatchingOptions(timeout=0.0, workers=1, max_batch_size=4), executor)

            def send(value, rows):
                return asyncio.create_task(batcher.run(signature, {"x": np.full(rows, value)}))

            first = send(1, 4)
            await asyncio.sleep(0.05)
            leaving = [send(2, 3), send(3, 1), send(4, 11), send(5, 2)]
            staying = send(6, 2)
            await asyncio.sleep(0.05)
            for task in leaving:
                task.cancel()
            await asyncio.sleep(0.05)
            signature.gate.set()
            return (await first)["y"].tolist(), (await staying)["y"].tolist(), batcher._waiting_rows

    assert asyncio.run(main()) == ([2] * 4, [12] * 2, 0)
    assert sum(shape[0] for shape in signature.calls) == 4 + 2


def test_a_large_request_lets_others_in_between():
    """With one worker and 8 parts, a request that comes later waits for one part only."""
    signature, order = Doubling(), []

    async def main():
        with ThreadPoolExecutor(1) as executor:
            batcher = Batcher(BatchingOptions(timeout=0.0, workers=1, max_batch_size=4), executor)

            async def send(name, rows):
                await batcher.run(signature, {"x": np.full(rows, 1)})
                order.append((name, len(signature.calls)))

            large = asyncio.create_task(send("large", 32))
            await asyncio.sleep(0)
            await asyncio.gather(large, send("small", 1))

    asyncio.run(main())
    assert order[0][0] == "small" and order[0][1] <= 3
    assert order[1] == ("large", 9)


class Padding(Doubling):
    """Answers the number n with n times n, padded to the largest n."""

    mergeable, padded = False, True

    def __call__(self, tensors):
        self.calls.append(tensors["x"].shape)
        width = max(tensors["x"], default=0)
        mask = np.arange(width) < tensors["x"][:, None]
        text = np.where(mask, b"t", b"").astype(object)
        numbers = np.where(mask, tensors["x"][:, None], -1)
        return {"y": mask * np.float32(tensors["x"][:, None]), "text": text, "numbers": numbers}


def test_padded_outputs_are_split_and_padded_as_one_call_would():
    numbers = np.array([3, 1, 0, 5, 2, 2, 7])

    async def main(size):
        with ThreadPoolExecutor(2) as executor:
            signature = Padding()
            batcher = Batcher(BatchingOptions(max_padded_rows=size, workers=2), executor)
            return await batcher.run(signature, {"x": numbers}), sorted(signature.calls)

    whole, calls = asyncio.run(main(8))
    assert calls == [(7,)]
    for size in (1, 2, 3):
        split, calls = asyncio.run(main(size))
        assert max(shape[0] for shape in calls) <= size
        assert {name: each.tolist() for name, each in split.items()} == {
            name: each.tolist() for name, each in whole.items()
        }


def test_a_failing_part_stops_the_others():
    signature = Doubling()
    answer = run(signature, [[-1, *range(30)]], max_batch_size=2)
    assert isinstance(answer[0], BadRequest)
    assert len(signature.calls) <= 3
