"""Training and validation datasets: each pair once per epoch, positions that restore, replicas that add up."""

import collections
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from toy_records import BOS, ToyPrepared, listed_pairs, pairs_in

from tf_transformer.data import _input_pipeline as input_pipeline
from tf_transformer.data._datasets import (
    BatchOptions,
    batch_shapes,
    keras_inputs,
    padding_dataset,
    training_dataset,
    validation_dataset,
)
from tf_transformer.data._gathering import Replicas
from tf_transformer.data._input_pipeline import Position

pytestmark = pytest.mark.long

COUNT = 509
BATCHINGS = pytest.mark.parametrize("batching", ["bucket", "pack"])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    validation = [*listed_pairs(53, seed=3), ([900, *[5] * 40, 3], [900, *[6] * 43, 3])]
    return ToyPrepared(tmp_path_factory.mktemp("records"), listed_pairs(COUNT), validation)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Three parts per epoch."""
    monkeypatch.setattr(input_pipeline.parts_per_epoch, "__defaults__", (170,))


def options(batching="bucket", **more):
    return BatchOptions(**{"batch_tokens": 211, "batching": batching} | more)


def arrays(dataset, count=None):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def numbers(batches):
    return [int(source[0]) - 100 for batch in batches for source, _, _ in pairs_in(batch)]


@BATCHINGS
def test_every_pair_appears_exactly_once_per_epoch_with_its_own_ids(prepared, batching):
    batches = arrays(training_dataset(prepared, options(batching), epochs=2))
    for epoch in (0, 1):
        # The position of an epoch's last batch is the beginning of the next.
        own = [
            b
            for b in batches
            if (b["position"][0] == epoch and b["position"].any()) or tuple(b["position"]) == (epoch + 1, 0, 0)
        ]
        own = [b for b in own if tuple(b["position"]) != (epoch, 0, 0)]
        assert collections.Counter(numbers(own)) == collections.Counter(range(COUNT))
        for batch in own:
            for source, target, labels in pairs_in(batch):
                expected = prepared.pairs["train"][int(source[0]) - 100]
                assert (source.tolist(), labels.tolist()) == expected
                assert target.tolist() == [BOS, *labels[:-1].tolist()]


def test_an_epoch_has_parts(prepared):
    positions = [tuple(batch["position"]) for batch in arrays(training_dataset(prepared, options(), epochs=1))]
    assert {part for _, part, _ in positions[:-1]} == {0, 1, 2} and positions[-1] == (1, 0, 0)
    assert positions == sorted(positions)


@BATCHINGS
def test_batches_have_the_announced_shapes_only(prepared, batching):
    announced = {(s.rows, s.source, s.target) for s in batch_shapes(prepared, options(batching))}
    for batch in arrays(training_dataset(prepared, options(batching), epochs=1)):
        assert (*batch["source"].shape, batch["target"].shape[1]) in announced
        assert batch["labels"].shape == batch["target"].shape
        assert all(array.dtype == np.int32 for name, array in batch.items() if name != "position")


def test_packed_positions_restart_in_each_segment(prepared):
    for batch in arrays(training_dataset(prepared, options("pack"), epochs=1)):
        for side in ("source", "target"):
            assert ((batch[f"{side}_segments"] > 0) == (batch[side] > 0)).all()
            segments, positions = batch[f"{side}_segments"], batch[f"{side}_positions"]
            new = np.diff(segments, axis=1, prepend=0) > 0
            inside = segments > 0
            assert (positions[new] == 0).all()
            assert (np.diff(positions, axis=1)[(~new & inside)[:, 1:]] == 1).all()
            assert (positions[~inside] == 0).all()
        assert (batch["target"][np.diff(batch["target_segments"], axis=1, prepend=0) > 0] == BOS).all()


def check_equal(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


@BATCHINGS
def test_a_position_restores_to_the_very_next_batch(prepared, batching):
    whole = arrays(training_dataset(prepared, options(batching), seed=5), 160)
    ends_of_parts = [i + 1 for i, batch in enumerate(whole) if batch["position"][2] == 0]
    for stop in (1, 7, ends_of_parts[0], ends_of_parts[0] - 1, ends_of_parts[2], ends_of_parts[2] + 3):
        position = Position.of(Position(*whole[stop - 1]["position"].tolist())._asdict())
        resumed = training_dataset(prepared, options(batching), seed=5, position=position)
        check_equal(arrays(resumed, 4), whole[stop : stop + 4])


@BATCHINGS
@pytest.mark.parametrize(("workers", "local", "steps"), [(1, 2, 1), (2, 1, 1), (2, 2, 1), (1, 4, 3), (3, 1, 2)])
def test_replicas_share_the_rows_of_the_same_global_batches(prepared, batching, workers, local, steps):
    whole = arrays(training_dataset(prepared, options(batching)), 9)
    streams = []
    for worker in range(workers):
        context = tf.distribute.InputContext(workers, worker, workers * local)
        replicas = Replicas.of(context, steps)
        streams.append(arrays(training_dataset(prepared, options(batching), replicas=replicas), 9 * local))
    for number, batch in enumerate(whole):
        shares = [stream[number * local + i] for stream in streams for i in range(local)]
        for share in shares:
            np.testing.assert_array_equal(share["position"], batch["position"])
            assert len(share["labels"]) == len(shares[0]["labels"]) and len(share["labels"]) % steps == 0
        for name in batch.keys() - {"position"}:
            joined = np.concatenate([share[name] for share in shares])
            np.testing.assert_array_equal(joined[: len(batch[name])], batch[name])
            assert not joined[len(batch[name]) :].any()
            assert len(joined) - len(batch[name]) < workers * local * steps


def test_epochs_and_seeds_shuffle_differently(prepared):
    orders = [
        numbers(arrays(training_dataset(prepared, options(), seed, position=Position(epoch)), 20))
        for seed, epoch in ((5, 0), (5, 1), (6, 0), (5, 0))
    ]
    assert orders[0] == orders[3]
    assert orders[0] != orders[1] and orders[0] != orders[2]


def test_long_pairs_are_left_out_and_logged(prepared, caplog):
    caplog.set_level("INFO")
    kept = {i for i, pair in enumerate(prepared.pairs["train"]) if max(map(len, pair)) <= 13}
    assert set(numbers(arrays(training_dataset(prepared, options(max_length=13), epochs=1)))) == kept
    assert f"{COUNT - len(kept)} of 509 train pairs are longer than 13 tokens" in caplog.text
    with pytest.raises(ValueError, match="at most max_length=1 tokens"):
        training_dataset(prepared, options(max_length=1))


@BATCHINGS
def test_the_validation_set_comes_once_in_one_more_shape_and_in_the_same_order(prepared, batching):
    dataset = validation_dataset(prepared, options(batching))
    batches = arrays(dataset)
    assert int(dataset.cardinality()) == len(batches)
    assert sorted(numbers(batches)) == [*range(53), 800]
    check_equal(arrays(dataset), batches)
    training = {(s.source, s.target) for s in batch_shapes(prepared, options(batching))}
    assert len({(b["source"].shape[1], b["target"].shape[1]) for b in batches} - training) <= 1
    halves = [arrays(validation_dataset(prepared, options(batching), replicas=Replicas(2, i, 1))) for i in (0, 1)]
    assert sorted(numbers([*halves[0], *halves[1]])) == [*range(53), 800]


def test_the_dataset_contains_no_python(prepared):
    """So that it can be serialized, and run by the tf.data service and on the hosts of a TPU."""
    for batching in ("bucket", "pack"):
        dataset = training_dataset(prepared, options(batching))
        graph = tf.compat.v1.GraphDef.FromString(dataset._as_serialized_graph().numpy())
        ops = {node.op for node in graph.node} | {n.op for f in graph.library.function for n in f.node_def}
        assert "TFRecordDatasetV2" in ops or "TFRecordDataset" in ops
        assert not {op for op in ops if "PyFunc" in op or "Generator" in op}


def test_the_cardinality_is_infinite(prepared):
    assert training_dataset(prepared, options()).cardinality() == tf.data.INFINITE_CARDINALITY


@BATCHINGS
def test_padding_batches_have_the_same_specification(prepared, batching):
    shape = batch_shapes(prepared, options(batching))[-1]
    dataset = padding_dataset(shape, batching == "pack", Replicas(total=2, accumulation_steps=3))
    assert dataset.element_spec == training_dataset(prepared, options(batching)).element_spec
    batch = arrays(dataset, 1)[0]
    assert len(batch["source"]) % 3 == 0 and batch["source"].shape[1] == shape.source
    assert batch["labels"].shape[1] == shape.target and not any(x.any() for x in batch.values())


@pytest.mark.parametrize("wrong", [{"batch_tokens": 0}, {"max_length": 0}, {"max_shapes": 0}, {"batching": "bag"}])
def test_wrong_options_are_rejected(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        BatchOptions(**wrong)


def test_a_position_of_an_older_version_is_rejected():
    with pytest.raises(ValueError, match="Expected a position with epoch, part, batch"):
        Position.of({"epoch": 1, "batch": 5})


@BATCHINGS
def test_keras_inputs_hold_every_label_once(prepared, batching):
    dataset = training_dataset(prepared, options(batching), epochs=1).map(keras_inputs)
    total = 0
    for inputs, labels, weights in dataset.as_numpy_iterator():
        total += int(weights.sum())
        np.testing.assert_array_equal(weights > 0, labels > 0)
        assert inputs["target"].shape == labels.shape
        assert ("source_segments" in inputs) == (batching == "pack")
    assert total == sum(len(target) for _, target in prepared.pairs["train"])


def test_keras_fits_on_it(prepared):
    source, target = keras.Input((None,), name="source"), keras.Input((None,), name="target")
    embed = keras.layers.Embedding(1009, 7)
    mean = keras.layers.Lambda(lambda x: keras.ops.mean(x, axis=1, keepdims=True), output_shape=(1, 7))
    logits = keras.layers.Dense(1009)(embed(target) + mean(embed(source)))
    model = keras.Model({"source": source, "target": target}, logits)
    model.compile(keras.optimizers.Adam(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    dataset = training_dataset(prepared, options()).map(keras_inputs)
    losses = model.fit(dataset, steps_per_epoch=11, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
