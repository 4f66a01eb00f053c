"""The memory of pairs: exact, small, the same everywhere."""

import logging

import numpy as np

from tf_transformer.data.preparation import _spool as seen_pairs
from tf_transformer.data.preparation._spool import SeenPairs


def pairs(numbers):
    return [(b"s%d" % number, b"t%d" % (number * 31)) for number in numbers]


def test_it_agrees_with_a_set_over_many_batches():
    random = np.random.default_rng(7)
    seen, reference = SeenPairs(), set()
    for size in random.integers(0, 400, 211):
        batch = pairs(random.integers(0, 9_973, size).tolist())
        expected = []
        for pair in batch:
            if pair not in reference:
                reference.add(pair)
                expected.append(pair)
        assert seen.add(batch) == expected
    assert len(seen) == len(reference) > 5_000


def test_it_keeps_eight_bytes_a_pair_in_few_runs():
    seen = SeenPairs()
    for start in range(0, 100_003, 997):
        seen.add(pairs(range(start, min(start + 997, 100_003))))
    assert sum(run.nbytes for run in seen._runs) == 8 * 100_003
    assert len(seen._runs) <= 8


def test_the_sides_are_kept_apart():
    assert SeenPairs().add([(b"ab", b"c"), (b"a", b"bc"), (b"", b"abc")]) == [
        (b"ab", b"c"),
        (b"a", b"bc"),
        (b"", b"abc"),
    ]


def test_hashes_are_the_same_on_every_machine():
    assert seen_pairs.pair_hashes([(b"one", b"eins"), (b"", b"")]).tobytes().hex() == "724b9dd50d12cc5d5030c2a8db49e9c6"


def test_beyond_its_limit_it_warns_once_and_still_knows_the_first(caplog):
    seen = SeenPairs(limit=10)
    with caplog.at_level(logging.WARNING):
        assert len(seen.add(pairs(range(12)))) == 12
        assert len(seen.add(pairs(range(6, 18)))) == 6
        assert len(seen.add(pairs(range(6, 18)))) == 6
    assert len(seen) == 12
    assert caplog.text.count("first 12 distinct pairs") == 1
