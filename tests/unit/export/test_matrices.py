"""Eight-bit matrices: products as in NumPy, exact on every CPU, row by row, in files of a quarter of the size."""

import dataclasses
import gc
import os
import subprocess
import sys

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from exported_toy import SMALL
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from toy_workdir import randomize, toy_tokenizers

from tf_transformer.decoding import CandidateTable, SearchOptions, Shortlist, search_ids
from tf_transformer.export import _matrices
from tf_transformer.export._matrices import LEVELS, QuantizedMatrix, quantize_model, require_kernel
from tf_transformer.export.inspection import inspect_saved_model
from tf_transformer.export.serving._loading import ServedModel
from tf_transformer.layers import inference_layout
from tf_transformer.model import Transformer

pytestmark = pytest.mark.long

WIDE = _matrices._WIDE + 3


def matrix(values):
    return QuantizedMatrix(np.asarray(values, np.float32), tf.Variable(127.0))


def product(weights, x):
    return tf.function(weights.product, autograph=False)(tf.constant(x, tf.float32)).numpy()


def normal(*shape, seed=3):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def reference(x, values):
    """The product of int8 rows and int8 weights, each with its scale, in integers."""
    scales = np.abs(values).max(axis=1) / LEVELS
    weights = np.rint(values / scales[:, None]).astype(np.int64)
    largest = np.abs(x).max(axis=-1, keepdims=True)
    rows = np.rint(x * np.divide(127, largest, out=np.zeros_like(largest), where=largest > 0)).astype(np.int64)
    return (rows @ weights.T) * (largest / 127.0) * scales


@pytest.mark.parametrize("units", [1, 37, WIDE])
@pytest.mark.parametrize("shape", [(1, 53), (7, 53), (2, 3, 53)])
def test_the_product_is_that_of_the_rounded_numbers(units, shape):
    x, values = normal(*shape), normal(units, 53, seed=5)
    found = product(matrix(values), x)
    assert found.shape == (*shape[:-1], units) and found.dtype == np.float32
    np.testing.assert_allclose(found, reference(x, values), rtol=1e-5, atol=1e-5)


@hypothesis.settings(derandomize=True, deadline=None, max_examples=40)
@hypothesis.given(
    arrays.arrays(np.float32, (2, 5), elements=st.floats(-1e4, 1e4, width=32)),
    arrays.arrays(np.float32, (3, 5), elements=st.floats(-100, 100, width=32)),
)
def test_the_error_is_that_of_half_a_level_on_either_side(x, values):
    largest_x, largest_w = np.abs(x).max(axis=1)[:, None], np.abs(values).max(axis=1)
    bound = 5 * largest_x * largest_w * (0.5 / 127 + 0.5 / LEVELS + 0.25 / 127 / LEVELS)
    assert (np.abs(product(matrix(values), x) - x.astype(np.float64) @ values.T) <= bound * 1.001 + 1e-30).all()


def test_a_row_does_not_depend_on_the_others():
    x, weights = normal(5, 53) * np.float32([[1e-6], [1], [1e6], [3], [0]]), matrix(normal(37, 53))
    together = product(weights, x)
    for number in range(5):
        np.testing.assert_allclose(product(weights, x[number : number + 1])[0], together[number], rtol=1e-6)
    assert not together[4].any() and np.isfinite(together).all()


def test_an_empty_batch_has_no_products():
    assert product(matrix(normal(37, 53)), np.zeros((0, 53))).shape == (0, 37)
    assert product(matrix(normal(WIDE, 53)), np.zeros((0, 4, 53))).shape == (0, 4, WIDE)


def test_lookups_do_not_make_the_products_copy_the_matrix():
    """After a `ResourceGather`, TensorFlow copies the whole variable at each read."""
    weights = matrix(normal(37, 53))
    both = tf.function(lambda x: weights.product(weights.rows(x)), autograph=False)
    kinds = {each.type for each in both.get_concrete_function(tf.TensorSpec([None], tf.int32)).graph.get_operations()}
    assert "GatherV2" in kinds and "ResourceGather" not in kinds


def test_a_stack_gives_the_products_of_its_matrices_and_computes_them_once():
    kernels, x = [normal(11, 53, seed=5), normal(7, 53, seed=7)], tf.constant(normal(3, 53))
    stack, bias = _matrices._Stack(kernels, tf.Variable(127.0)), tf.constant(normal(7, seed=9))
    parts = [_matrices.StackedMatrix(stack, number) for number in range(2)]
    graph = tf.function(lambda x: (parts[0].product(x), parts[1].product(x, bias)), autograph=False)
    found = graph(x)
    np.testing.assert_allclose(found[0], product(matrix(kernels[0]), x), rtol=1e-6)
    np.testing.assert_allclose(found[1], product(matrix(kernels[1]), x) + bias, rtol=1e-6)
    operations = graph.get_concrete_function(x).graph.get_operations()
    assert [each.type for each in operations].count(_matrices.OP) == 1


def test_rows_are_looked_up_with_their_scales():
    values = normal(11, 7) * np.float32(10.0) ** np.arange(-5, 6, dtype=np.float32)[:, None]
    values[4] = 0
    found = matrix(values).rows(tf.constant([[0, 4], [10, 2]])).numpy()
    assert found.shape == (2, 2, 7) and not found[0, 1].any()
    expected = values[[[0, 4], [10, 2]]]
    assert (np.abs(found - expected) <= np.abs(expected).max(axis=-1, keepdims=True) * 0.5001 / LEVELS).all()


@pytest.mark.parametrize("rows", [37, WIDE])
def test_the_product_of_some_rows_is_that_of_the_whole_matrix(rows):
    weights, x, ids = matrix(normal(rows, 53)), tf.constant(normal(3, 53, seed=5)), tf.constant([31, 2, 2, 19, 5])

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, 53]), tf.TensorSpec([None], tf.int32)])
    def some(x, ids):
        return weights.rows_product(ids)(x)

    np.testing.assert_allclose(some(x, ids), product(weights, x)[:, ids.numpy()], rtol=1e-6)
    assert some(x[:0], ids).shape == (0, 5)


@pytest.mark.parametrize("isa", ["AVX2", pytest.param("AVX512_CORE", marks=pytest.mark.slow)])
def test_sums_are_exact_on_cpus_without_vnni(isa):
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "TF_CPP_MIN_LOG_LEVEL": "3"}
    code = "from tf_transformer.export._matrices import require_kernel; require_kernel()"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_kernel_with_other_sums_is_rejected(monkeypatch):
    exact = _matrices._integer_product
    monkeypatch.setattr(_matrices, "_integer_product", lambda *args: tf.minimum(exact(*args), 32767.0))
    with pytest.raises(
        ValueError, match=r"Expected exact sums .* Received: \[\[32767\.0, .* Export with weights float32"
    ):
        require_kernel()


def test_a_tensorflow_without_the_op_is_rejected(monkeypatch):
    monkeypatch.setattr(_matrices, "OP", "_QuantizedMatMuX")
    with pytest.raises(ValueError, match=r"2\.17 or later for Linux .* Received: TensorFlow .*_QuantizedMatMuX"):
        require_kernel()


def save(directory, seed=5):
    """Two products in a SavedModel; returns its function and what that gives."""
    root = tf.Module()
    unit = tf.Variable(127.0)
    root.matrices = {
        "a/kernel": QuantizedMatrix(normal(307, 53, seed=seed), unit),
        "b/kernel": QuantizedMatrix(normal(53, 307, seed=seed), unit),
    }

    @tf.function(input_signature=[tf.TensorSpec([None, 53], tf.float32, "x")], autograph=False)
    def serve(x):
        return {"y": root.matrices["b/kernel"].product(root.matrices["a/kernel"].product(x))}

    tf.saved_model.save(root, str(directory), signatures=serve)
    return serve(tf.constant(normal(3, 53)))["y"].numpy()


def test_both_loaders_give_the_products_and_the_files_have_a_quarter_of_the_size(tmp_path):
    expected = save(tmp_path / "1")
    loaded = tf.saved_model.load(str(tmp_path / "1"))
    found = loaded.signatures["serving_default"](x=tf.constant(normal(3, 53)))["y"].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with tf.compat.v1.Session(graph=tf.Graph()) as session:  # as the server has one
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(tmp_path / "1"))
        signature = graph.signature_def["serving_default"]
        again = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: normal(3, 53)})
    np.testing.assert_allclose(again, expected, rtol=1e-6)
    report = inspect_saved_model(tmp_path / "1")
    assert report.sizes.variables_bytes < 2 * 307 * 53 + 4 * (307 + 53) + 2000
    assert report.oldest_server == "2.17.0" and report.problems == ()


def test_two_models_in_one_process_keep_their_own_weights(tmp_path):
    expected = [save(tmp_path / str(seed), seed) for seed in (5, 6)]
    models = [tf.saved_model.load(str(tmp_path / str(seed))) for seed in (5, 6)]
    x = tf.constant(normal(3, 53))
    for _ in range(2):  # packed by the first call, used by the second
        for model, values in zip(models, expected):
            np.testing.assert_allclose(model.signatures["serving_default"](x=x)["y"].numpy(), values, rtol=1e-6)
    del models[0], model
    gc.collect()
    np.testing.assert_allclose(models[0].signatures["serving_default"](x=x)["y"].numpy(), expected[1], rtol=1e-6)


def test_a_server_without_the_op_names_it_when_it_loads(tmp_path):
    save(tmp_path / "1")
    graph = tmp_path / "1" / "saved_model.pb"
    graph.write_bytes(graph.read_bytes().replace(b"_QuantizedMatMul", b"_QuantizedMatMuX"))
    (tmp_path / "1" / "fingerprint.pb").unlink()
    with pytest.raises((ValueError, tf.errors.OpError, RuntimeError), match="_QuantizedMatMuX"):
        ServedModel(tmp_path / "1", 1)
    report = inspect_saved_model(tmp_path / "1")
    assert [problem.kind for problem in report.problems] == ["unknown_op"] and not report.servers


def toy(**options):
    with inference_layout():
        model = Transformer(toy_config(**options))
    randomize(model)
    return model


def toy_config(**options):
    return dataclasses.replace(SMALL, vocab_size=toy_tokenizers().source.vocab_size, **options)


@pytest.mark.parametrize(
    "options", [{"decoder_autoregression": "ssru"}, {"tied_embeddings": "none", "output_bias": True}]
)
def test_a_model_computes_with_its_matrices_only(options):
    model = toy(**options)
    source, target = tf.constant([[5, 6, 7, 3], [9, 3, 0, 0]]), tf.constant([[2, 8], [2, 11]])
    full = model({"source": source, "target": target}).numpy()
    matrices = quantize_model(model)
    assert set(matrices) == {each.path for each in model.weights if each.path.endswith(("/kernel", "/table"))}
    for variable in model.weights:
        if variable.path in matrices:  # what is still read of it would show
            variable.assign(np.full(variable.shape, np.nan))
    call = tf.function(lambda: model({"source": source, "target": target}), autograph=False)
    found = call().numpy()
    assert 0 < np.abs(found - full).max() < 0.1 * np.abs(full).max()
    kinds = [each.type for each in call.get_concrete_function().graph.get_operations()]
    layers, ssru = model.config.num_layers, model.config.decoder_autoregression == "ssru"
    kernels = len([path for path in matrices if path.endswith("/kernel")])
    # Queries, keys and values are one product, and so are the two of an SSRU.
    assert kinds.count(_matrices.OP) == kernels + 1 - layers * (2 + (1 if ssru else 2))


def test_the_search_and_the_whole_model_give_the_same_log_probabilities_whatever_the_batch():
    model = toy()
    quantize_model(model)
    options = SearchOptions(eos_id=3, beam_size=2, nbest=1, forbidden_ids=(0, 2))
    source, lengths = tf.constant([[5, 6, 7, 3], [9, 3, 0, 0], [4, 31, 3, 0]]), tf.constant([4, 2, 3])

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.int32), tf.TensorSpec([None], tf.int32)], autograph=False)
    def search(source, lengths):
        rows = {"source": source, "lengths": lengths, "max_lengths": lengths + 2}
        found = search_ids(model, rows, options)
        ids = found.ids[:, 0]
        inputs = tf.pad(ids, [[0, 0], [1, 0]], constant_values=model.config.bos_id)[:, :-1]
        steps = tf.nn.log_softmax(model({"source": source, "target": inputs}))
        each = tf.gather(steps, ids, batch_dims=2)
        counted = tf.sequence_mask(found.lengths[:, 0], tf.shape(ids)[1])
        return ids, found.log_probs[:, 0], tf.reduce_sum(tf.where(counted, each, 0.0), axis=1)

    ids, log_probs, scored = search(source, lengths)
    np.testing.assert_allclose(log_probs, scored, atol=0.02)
    for number in range(3):
        alone = search(source[number : number + 1], lengths[number : number + 1])
        np.testing.assert_allclose(alone[1], log_probs[number : number + 1], atol=0.02)
        np.testing.assert_array_equal(alone[0][0], ids[number, : alone[0].shape[1]])


def test_a_row_of_a_search_with_a_shortlist_does_not_depend_on_the_batch():
    model = toy()
    quantize_model(model)
    size = model.config.vocab_size
    lists = np.random.default_rng(5).integers(4, size, (size, 5)).astype(np.int32)
    shortlist = Shortlist(lists, np.array([3, 4], np.int32), size, {})
    table, options = CandidateTable(shortlist), SearchOptions(eos_id=3, beam_size=2, nbest=1, forbidden_ids=(0, 2))
    source, lengths = tf.constant([[5, 6, 7, 3], [9, 3, 0, 0], [4, 31, 3, 0]]), tf.constant([4, 2, 3])

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.int32), tf.TensorSpec([None], tf.int32)], autograph=False)
    def search(source, lengths):
        rows = {"source": source, "lengths": lengths, "max_lengths": lengths + 2}
        found = search_ids(model, rows, options, shortlist=table)
        return found.ids[:, 0], found.log_probs[:, 0]

    ids, log_probs = search(source, lengths)
    for number, length in enumerate(lengths.numpy()):
        one = slice(number, number + 1)
        alone = search(source[one], lengths[one])
        np.testing.assert_array_equal(alone[0][0], ids[number, : alone[0].shape[1]])
        np.testing.assert_allclose(alone[1], log_probs[one], atol=1e-5)
        candidates = shortlist.candidates_of(list(source[number, :length].numpy()))
        assert set(ids[number].numpy()) <= {*candidates, 0}
