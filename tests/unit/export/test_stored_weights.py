"""Smaller weights: half the bytes in the files, float32 in the graph, and the rounded values in both loaders."""

import gc

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.export._stored_weights import rounded, stored

ONES = np.ones((2, 7), np.float32)


def save(directory, weights):
    """A matrix, and a vector, in a SavedModel; returns their values."""
    variables = {"a/matrix": tf.Variable(tf.random.normal([7, 5003])), "b": tf.Variable(tf.random.normal([5003]))}

    @tf.function(input_signature=[tf.TensorSpec([None, 7], tf.float32, "x")])
    def serve(x):
        return {"y": x @ variables["a/matrix"] + variables["b"]}

    root = tf.Module()
    root.weights = stored(variables, weights)
    tf.saved_model.save(root, str(directory), signatures=serve)
    return {name: variable.numpy() for name, variable in variables.items()}


def expected(values, weights):
    small = rounded(values, weights, "the test")
    return ONES @ small["a/matrix"] + small["b"]


@pytest.mark.parametrize("weights", ["float32", "float16", "bfloat16"])
def test_both_loaders_find_the_rounded_values(tmp_path, weights):
    values = save(tmp_path / "model", weights)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    found = loaded.signatures["serving_default"](x=tf.constant(ONES))["y"].numpy()
    np.testing.assert_allclose(found, expected(values, weights), rtol=1e-5, atol=1e-5)
    if weights != "float32":
        assert np.abs(found - ONES @ values["a/matrix"] - values["b"]).max() > 1e-5

    # A session, as the server has one.
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(tmp_path / "model"))
        signature = graph.signature_def["serving_default"]
        again = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: ONES})
    np.testing.assert_allclose(again, found, rtol=1e-6)


def test_the_files_have_half_the_size(tmp_path):
    sizes = {}
    for weights in ("float32", "float16"):
        save(tmp_path / weights, weights)
        sizes[weights] = (tmp_path / weights / "variables" / "variables.data-00000-of-00001").stat().st_size
    matrix, vector = 7 * 5003, 5003
    assert abs(sizes["float32"] - 4 * (matrix + vector)) < 1000
    assert abs(sizes["float16"] - 2 * matrix - 4 * vector) < 1000


def test_two_models_in_one_process_keep_their_own_weights(tmp_path):
    values = [save(tmp_path / name, "float16") for name in ("one", "two")]
    one, two = (tf.saved_model.load(str(tmp_path / name)) for name in ("one", "two"))
    first = one.signatures["serving_default"](x=tf.constant(ONES))["y"].numpy()
    np.testing.assert_allclose(first, expected(values[0], "float16"), rtol=1e-5, atol=1e-5)
    del one
    gc.collect()
    second = two.signatures["serving_default"](x=tf.constant(ONES))["y"].numpy()
    np.testing.assert_allclose(second, expected(values[1], "float16"), rtol=1e-5, atol=1e-5)


def test_vectors_are_not_rounded():
    values = {"bias": np.float32([0.1, 1e6]), "kernel": np.float32([[0.1]])}
    small = rounded(values, "float16", "the test")
    np.testing.assert_array_equal(small["bias"], values["bias"])
    assert small["kernel"] == np.float32(np.float16(0.1)) and small["kernel"].dtype == np.float32


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_rejected(bad):
    with pytest.raises(ValueError, match=r"run/best: decoder/kernel holds 1 values that are NaN or infinite"):
        rounded({"decoder/kernel": np.float32([[0, bad]])}, "float32", "run/best")


def test_numbers_that_float16_cannot_hold_are_rejected_and_bfloat16_is_advised():
    values = {"kernel": np.float32([[7e4]])}
    with pytest.raises(ValueError, match=r"as float16, kernel holds 1 .*bfloat16"):
        rounded(values, "float16", "run/best")
    assert np.isfinite(rounded(values, "bfloat16", "run/best")["kernel"]).all()


def test_an_unknown_type_is_rejected():
    with pytest.raises(ValueError, match=r"one of float32, float16, bfloat16, int8\. Received: 'int4'"):
        rounded({}, "int4", "run/best")
