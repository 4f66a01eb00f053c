import functools
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tf_transformer.decoding._batching import in_batches, length_batches, text_batch_size


def test_every_text_is_in_one_batch_with_others_of_its_length():
    choose = random.Random(3)
    lengths = [choose.randint(0, 300) for _ in range(211)]
    batches = length_batches(lengths, lambda longest: text_batch_size(longest, max_rows=13, max_bytes=1000))
    assert sorted(i for batch in batches for i in batch) == list(range(211))
    for batch in batches:
        assert len(batch) <= 13
        assert len(batch) == 1 or len(batch) * lengths[batch[0]] <= 1000
    flat = [lengths[i] for batch in batches for i in batch]
    assert flat == sorted(flat, reverse=True)


def test_a_huge_text_is_alone_and_does_not_shrink_the_others():
    size = functools.partial(text_batch_size, max_rows=3, max_bytes=15)
    assert length_batches([5, 10_000_000, 5, 5], size) == [[1], [0, 2, 3]]


def test_no_text_no_batch():
    assert length_batches([], text_batch_size) == []
    assert in_batches(lambda texts: texts, []) == []


def test_results_come_back_in_order():
    texts = [b"a" * n for n in (3, 0, 7, 5, 5, 1, 11)]
    calls, progress = [], []

    def call(left, right):
        calls.append(len(left))
        return [(one, two) for one, two in zip(left, right)]

    results = in_batches(call, texts, texts[::-1], max_rows=2, done=progress.append)
    assert results == list(zip(texts, texts[::-1]))
    assert calls == progress == [2, 2, 2, 1]


def test_threads_share_the_texts_and_change_nothing():
    texts = [b"%d" % n for n in range(37)]
    sizes, progress, both = [], [], threading.Barrier(2, timeout=1200)

    def call(batch):
        sizes.append(len(batch))
        if len(sizes) <= 2:
            both.wait()  # passes only if two batches are computed at once
        return batch

    assert in_batches(call, texts, threads=2, done=progress.append) == texts
    assert sorted(sizes) == sorted(progress) == [18, 19]


def test_few_texts_are_not_divided():
    sizes = []
    in_batches(lambda batch: sizes.append(len(batch)) or batch, [b"a"] * 7, threads=4)
    assert sizes == [7]


def test_an_error_in_a_thread_is_raised_and_the_rest_not_begun(monkeypatch):
    begun, cancelled, shutdown = [], threading.Event(), ThreadPoolExecutor.shutdown

    def call(batch):
        begun.append(len(batch))
        if b"000" in batch:
            raise ValueError("no memory")
        assert cancelled.wait(1200)
        return batch

    def noticed(pool, *arguments, **options):
        cancelled.set()
        shutdown(pool, *arguments, **options)

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", noticed)
    with pytest.raises(ValueError, match="no memory"):
        in_batches(call, [b"%03d" % number for number in range(500)], max_rows=8, threads=2)
    assert len(begun) <= 3  # the first, and one per thread that was under way


def test_a_result_too_few_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        in_batches(lambda texts: texts[1:], [b"a", b"b"])
