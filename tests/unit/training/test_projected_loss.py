import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.training._losses import LabelSmoothedCrossEntropy
from tf_transformer.training._projected_loss import projected_loss, projected_sums

B, T, D, V = 3, 5, 7, 11
SCALE = 0.37


def problem(with_bias: bool):
    random = np.random.default_rng(1)
    hidden = tf.constant(random.normal(size=(B, T, D)), tf.float32)
    table = tf.constant(random.normal(size=(V, D)), tf.float32)
    labels = random.integers(1, V, (B, T)).astype("int32")
    labels[1, 2:] = 0
    bias = tf.constant(random.normal(size=V), tf.float32) if with_bias else None
    return hidden, table, labels, bias


def automatic(hidden, table, labels, bias, smoothing):
    """Sums and gradients by way of all logits at once."""
    inputs = [hidden, table] + ([] if bias is None else [bias])
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        logits = tf.einsum("btd,vd->btv", hidden, table)
        logits = logits if bias is None else logits + bias
        smoothed = tf.reduce_sum(LabelSmoothedCrossEntropy(smoothing).call(labels, logits))
        loss = SCALE * smoothed
    likelihood = tf.reduce_sum(LabelSmoothedCrossEntropy(0.0).call(labels, logits))
    return (smoothed, likelihood, float((labels != 0).sum())), tape.gradient(loss, inputs)


@pytest.mark.parametrize("chunk_tokens", [100, 15, 4, 1])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_is_the_loss_of_all_logits_and_its_gradients(chunk_tokens, with_bias, smoothing):
    hidden, table, labels, bias = problem(with_bias)
    sums, gradients = automatic(hidden, table, labels, bias, smoothing)
    ours = projected_loss(hidden, table, labels, SCALE, bias, smoothing, chunk_tokens=chunk_tokens)
    np.testing.assert_allclose(ours.sums, sums, rtol=1e-5)
    np.testing.assert_allclose(ours.hidden_gradient, gradients[0], atol=1e-5)
    np.testing.assert_allclose(ours.table_gradient, gradients[1], atol=1e-5)
    if with_bias:
        np.testing.assert_allclose(ours.bias_gradient, gradients[2], atol=1e-5)


def test_unknown_shapes_and_xla_give_the_same():
    hidden, table, labels, _ = problem(False)
    expected = projected_loss(hidden, table, labels, SCALE, None, 0.1)

    def loss(hidden, table, labels):
        return projected_loss(hidden, table, labels, SCALE, None, 0.1, chunk_tokens=4)

    specs = [tf.TensorSpec([None, None, D]), tf.TensorSpec([V, D]), tf.TensorSpec([None, None], tf.int32)]
    dynamic = tf.function(loss, input_signature=specs)
    for function in (dynamic, tf.function(loss, jit_compile=True)):
        for ours, theirs in zip(tf.nest.flatten(function(hidden, table, labels)), tf.nest.flatten(expected)):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_an_unlikely_label_has_a_finite_loss():
    hidden, table = tf.constant([[[100.0, 0.0]]]), tf.constant([[0.0, 1.0], [5.0, 0.0], [-5.0, 0.0]])
    sums = projected_sums(hidden, table, np.array([[2]]))
    assert float(sums.negative_log_likelihood) == pytest.approx(1000.0)


def test_padding_alone_gives_zero_and_no_gradient():
    hidden, table, labels, _ = problem(False)
    ours = projected_loss(hidden, table, np.zeros_like(labels), SCALE, None, 0.1)
    assert [float(value) for value in ours.sums] == [0, 0, 0]
    assert not np.any(ours.hidden_gradient) and not np.any(ours.table_gradient)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision_is_close_and_its_sums_are_float32(dtype):
    hidden, table, labels, bias = problem(False)
    sums, gradients = automatic(hidden, table, labels, bias, 0.1)
    ours = projected_loss(tf.cast(hidden, dtype), table, labels, SCALE, None, 0.1)
    assert ours.sums.loss.dtype == ours.table_gradient.dtype == tf.float32
    assert ours.hidden_gradient.dtype == dtype
    assert float(ours.sums.loss) == pytest.approx(float(sums[0]), rel=0.02)
    np.testing.assert_allclose(ours.table_gradient, gradients[1], atol=0.05)
