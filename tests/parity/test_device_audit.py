"""Audit for GPUs and XLA without either: kernels, copies to host memory, and one compilation per shape."""

import pytest
import tensorflow as tf
from device_audit import audit
from toy_workdir import toy_workdir
from training_toys import ToyTraining, toy_batch

from tf_transformer.decoding import Translator

PACKED = [f"{side}_{kind}" for side in ("source", "target") for kind in ("segments", "positions")]
PRECISIONS = pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])


def step_function(toy, packed: bool):
    names = [*toy_batch(1), *(PACKED if packed else [])]
    batch = {name: tf.TensorSpec([None, None], tf.int32) for name in names}
    return toy.step._one.get_concrete_function(batch, toy.counters.tensors(), tf.constant(0.0))


@PRECISIONS
@pytest.mark.parametrize("packed", [False, True], ids=["bucket", "pack"])
def test_every_op_of_the_training_step_has_a_gpu_kernel_and_nothing_is_copied(precision, packed):
    toy = ToyTraining(
        model={"dropout": 0.1}, training={"precision": precision, "gradient_clip_norm": 1.0, "ema_decay": 0.9}
    )
    found = audit(step_function(toy, packed))
    assert {"MatMul", "GatherV2", "ResourceScatterAdd", "TensorScatterAdd"} & found.ops
    assert found.missing == set()
    # The numbers of the positions: one vector as long as the longest sentence.
    assert {(copy.producer, copy.consumer) for copy in found.copies} == {("Range", "Cast")}
    assert all(len(copy.shape) == 1 for copy in found.copies)


def test_so_do_the_two_passes_of_r_drop():
    toy = ToyTraining(model={"dropout": 0.1}, training={"r_drop": 5.0})
    found = audit(step_function(toy, packed=True))
    assert found.missing == set()
    assert {copy.producer for copy in found.copies} <= {"Range"}


@pytest.mark.parametrize("changes", [{"attention_block_size": 4}, {"positions": "learned"}, {"norm": "pre"}], ids=str)
def test_so_do_the_options_of_the_model(changes):
    found = audit(step_function(ToyTraining(model={"dropout": 0.1, **changes}), packed=True))
    assert found.missing == set()
    assert {copy.producer for copy in found.copies} <= {"Range"}


# Strings are read and written by the host, before and after the search; these go with them, on integers and booleans.
ON_THE_HOST = {"DenseBincount", "RaggedRange", "RaggedTensorToTensor", "UnsortedSegmentSum"}
# One value per row, as often as rows that have ended are taken out.
SMALL_ON_THE_HOST = {"TensorScatterUpdate"}


def test_the_search_leaves_logits_and_cache_on_the_device(tmp_path):
    """Its bookkeeping (ids, beams, lengths) is int32 and is computed in host memory: docs/explanation/scaling.md."""
    toy_workdir(tmp_path / "toy")
    translator = Translator.from_workdir(tmp_path / "toy")
    text = tf.TensorSpec([None], tf.string)
    found = audit(tf.function(translator.translate, input_signature=[text], autograph=False).get_concrete_function())
    numeric = {(op, types) for op, types in found.missing if "string" not in types}
    assert {op for op, _ in numeric} <= ON_THE_HOST | SMALL_ON_THE_HOST
    assert not any("float" in types for _, types in numeric)
    assert {types for op, types in numeric if op in SMALL_ON_THE_HOST} <= {"bool, int32, bool → bool"}
    assert {copy.dtype for copy in found.copies} <= {"int32", "int64", "bool", "string"}


@pytest.mark.parametrize("precision", ["mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.slow)])
def test_xla_compiles_once_per_shape_and_all_shapes_are_static(precision):
    toy = ToyTraining(
        model={"dropout": 0.1}, training={"precision": precision, "xla": True, "batching": "pack", "seed": 3}
    )
    batches = [packed_batch(1, rows=4), packed_batch(2, rows=6), packed_batch(3, rows=4), packed_batch(4, rows=6)]
    report = toy.train(batches)
    assert report.tokens.min() > 0 and toy.counters.step == 4
    assert toy.step._one.experimental_get_tracing_count() == 2
    part = toy.step._gradients._part
    assert part.experimental_get_tracing_count() == 2
    for function in part._list_all_concrete_functions():
        unknown = {
            op.type
            for op in function.graph.get_operations()
            for x in op.outputs
            if x.dtype not in (tf.resource, tf.variant) and not x.shape.is_fully_defined()
        }
        assert unknown == set()


def packed_batch(seed: int, rows: int):
    batch = toy_batch(seed, rows)
    for side in ("source", "target"):
        batch[f"{side}_segments"] = (batch[side] > 0).astype("int32")
        batch[f"{side}_positions"] = (batch[side] > 0).cumsum(1).astype("int32") * (batch[side] > 0) - (batch[side] > 0)
    return batch
