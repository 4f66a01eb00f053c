"""The stream of batches: each pair once an epoch, positions that restore, shards that add up, right contents."""

import collections
import itertools
import json
import threading
import types

import numpy as np
import pytest

from tf_transformer.data._assembly import SpecialIds
from tf_transformer.data._batching import BatchOptions, BatchStream
from tf_transformer.data._prefetching import prefetch

EOS, BOS = 3, 2


class ListedExamples:
    """Examples in memory; each source's first id, and each target's, says which example it is."""

    def __init__(self, count, seed=11, longest=31):
        chance = np.random.default_rng(seed)
        self.pairs = []
        for number in range(count):
            sides = (chance.integers(4, 90, chance.integers(0, longest - 1)) for _ in range(2))
            self.pairs.append(tuple(np.array([100 + number, *ids, EOS], np.int32) for ids in sides))
        self.lengths = np.array([[len(s), len(t)] for s, t in self.pairs], np.int32)

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        return self.pairs[index]


def stream(count=509, seed=1, **options):
    prepared = types.SimpleNamespace(examples=ListedExamples(count), special_ids=SpecialIds(), path="prepared")
    return BatchStream(prepared, BatchOptions(**{"batch_tokens": 211, "prefetch": 0} | options), seed)


def epoch_of(batches, epoch):
    return [batch for batch, position in itertools.takewhile(lambda item: item[1]["epoch"] == epoch, batches)]


def pairs_in(batch):
    """The pairs of a batch, read back from its arrays alone."""
    for row in range(len(batch["source"])):
        segments = batch.get("source_segments")
        numbers = [1] if segments is None else range(1, segments[row].max() + 1)
        for number in numbers:
            source, target, labels = (
                batch[name][row] if segments is None else batch[name][row][batch[f"{side}_segments"][row] == number]
                for name, side in (("source", "source"), ("target", "target"), ("labels", "target"))
            )
            source, target, labels = source[source > 0], target[target > 0], labels[labels > 0]
            if len(source):
                yield source, target, labels


BATCHINGS = pytest.mark.parametrize("batching", ["bucket", "pack"])


@BATCHINGS
def test_every_pair_appears_exactly_once_an_epoch_with_its_own_ids(batching):
    s = stream(batching=batching)
    for epoch in (0, 1):
        seen = collections.Counter()
        for batch in epoch_of(s.batches({"epoch": epoch, "batch": 0}), epoch):
            for source, target, labels in pairs_in(batch):
                number = int(source[0]) - 100
                seen[number] += 1
                assert source.tolist() == s.prepared.examples[number][0].tolist()
                assert labels.tolist() == s.prepared.examples[number][1].tolist()
                assert target.tolist() == [BOS, *labels[:-1].tolist()]
        assert seen == collections.Counter(range(509))


@BATCHINGS
def test_batches_have_the_announced_shapes_only(batching):
    s = stream(batching=batching)
    announced = {(shape.rows, shape.source, shape.target) for shape in s.shapes}
    for batch in epoch_of(s.batches(), 0):
        assert (*batch["source"].shape, batch["target"].shape[1]) in announced
        assert batch["labels"].shape == batch["target"].shape
        assert all(array.dtype == np.int32 for array in batch.values())


def test_packed_positions_restart_in_each_segment():
    for batch in epoch_of(stream(batching="pack").batches(), 0):
        for side in ("source", "target"):
            assert ((batch[f"{side}_segments"] > 0) == (batch[side] > 0)).all()
            segments, positions = batch[f"{side}_segments"], batch[f"{side}_positions"]
            new = np.diff(segments, axis=1, prepend=0) > 0
            inside = segments > 0
            assert (positions[new] == 0).all()
            assert (np.diff(positions, axis=1)[(~new & inside)[:, 1:]] == 1).all()
            assert (positions[~inside] == 0).all()
        assert (batch["target"][np.diff(batch["target_segments"], axis=1, prepend=0) > 0] == BOS).all()


@BATCHINGS
@pytest.mark.parametrize("stop", [0, 1, 7, 83, 150])
def test_a_position_restores_to_the_very_next_batch(batching, stop):
    whole = list(itertools.islice(stream(batching=batching).batches(), stop + 5))
    position = json.loads(json.dumps(whole[stop - 1][1])) if stop else None
    resumed = itertools.islice(stream(batching=batching).batches(position), 5)
    for (expected, _), (batch, _) in zip(whole[stop:], resumed, strict=True):
        assert expected.keys() == batch.keys()
        assert all((expected[name] == batch[name]).all() for name in expected)


@BATCHINGS
@pytest.mark.parametrize("num_shards", [2, 3, 8])
def test_shards_are_slices_of_the_global_batch(batching, num_shards):
    shards = [stream(batching=batching).batches(None, i, num_shards) for i in range(num_shards)]
    for (batch, position), *parts in itertools.islice(zip(stream(batching=batching).batches(), *shards), 60):
        assert all(part_position == position for _, part_position in parts)
        for name, array in batch.items():
            joined = np.concatenate([part[name] for part, _ in parts])
            assert (joined[: len(array)] == array).all()
            assert not joined[len(array) :].any()
            assert len(joined) - len(array) < num_shards


def test_epochs_and_seeds_shuffle_differently():
    first, second = (epoch_of(stream(seed=5).batches({"epoch": e, "batch": 0}), e) for e in (0, 1))
    other = epoch_of(stream(seed=6).batches(), 0)
    assert not np.array_equal(first[0]["source"], second[0]["source"])
    assert not np.array_equal(first[0]["source"], other[0]["source"])


def test_long_pairs_are_left_out_and_told(caplog):
    caplog.set_level("INFO")
    s = stream(max_length=13)
    kept = int((s.prepared.examples.lengths <= 13).all(1).sum())
    assert sum(1 for batch in epoch_of(s.batches(), 0) for _ in pairs_in(batch)) == kept < 509
    assert f"{509 - kept} of 509 training pairs are longer than 13 tokens" in caplog.text
    with pytest.raises(ValueError, match="no training pair of at most max_length=1"):
        stream(max_length=1)


@pytest.mark.parametrize("wrong", [{"batch_tokens": 0}, {"max_length": 0}, {"max_shapes": 0}, {"batching": "bag"}])
def test_wrong_options_are_rejected(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        BatchOptions(**wrong)


@pytest.mark.parametrize("shard", [(2, 2), (-1, 2), (0, 0)])
def test_wrong_shards_are_rejected(shard):
    with pytest.raises(ValueError, match="shard_index"):
        stream().batches(None, *shard)


def test_prefetching_changes_nothing_and_its_thread_ends():
    before = set(threading.enumerate())
    plain = itertools.islice(stream().batches(), 9)
    ahead = stream(prefetch=3).batches()
    for (expected, position), (batch, other) in zip(plain, ahead):
        assert position == other and (expected["source"] == batch["source"]).all()
    assert [thread.name for thread in set(threading.enumerate()) - before] == ["prefetch"]
    ahead.close()
    assert set(threading.enumerate()) <= before


def test_errors_come_through_the_prefetching_thread():
    def items():
        yield 1
        raise ValueError("damaged")

    ahead = prefetch(items(), 2)
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="damaged"):
        next(ahead)
