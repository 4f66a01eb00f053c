"""Merging of requests, with a signature that writes down what it was called with."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tf_transformer.export.serving._batching import Batcher, BatchingOptions, Overloaded
from tf_transformer.export.serving._rest import BadRequest

GUARD_SECONDS = 1200
"""Limit of every wait: ends a hang."""


class Doubling:
    """Answers x with 2x, rejects negative numbers, and can be held until the test lets it go."""

    mergeable = True

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


@pytest.mark.parametrize("field", ["max_batch_size", "max_waiting_rows", "workers"])
def test_options_are_checked(field):
    with pytest.raises(ValueError, match=f"{field} must be at least 1, but is 0"):
        BatchingOptions(**{field: 0})
