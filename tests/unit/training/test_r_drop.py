"""R-Drop: the divergence of two dropout passes, against NumPy and against automatic differentiation."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.training._projected_loss import projected_loss

pytestmark = pytest.mark.long

B, T, D, V = 3, 5, 7, 11
SCALE, ALPHA = 0.37, 5.0


def problem():
    random = np.random.default_rng(1)
    hidden = tf.constant(random.normal(size=(2 * B, T, D)), tf.float32)
    table = tf.constant(random.normal(size=(V, D)), tf.float32)
    bias = tf.constant(random.normal(size=V), tf.float32)
    labels = random.integers(1, V, (B, T)).astype("int32")
    labels[1, 2:] = 0
    return hidden, table, labels, bias


def numpy_loss(hidden, table, labels, bias, smoothing):
    """Half of equation 4 of the paper, summed over tokens; the likelihood is the mean of the passes."""
    logits = np.asarray(hidden, "float64") @ np.asarray(table, "float64").T + np.asarray(bias)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    first, second = log_probs[:B], log_probs[B:]
    kinds = [0.0, 0.0]
    for row, column in np.argwhere(labels != 0):
        p, q = first[row, column], second[row, column]
        divergence = 0.5 * (np.exp(p) @ (p - q) + np.exp(q) @ (q - p))
        smoothed = sum(-(1 - smoothing) * x[labels[row, column]] - smoothing * x.mean() for x in (p, q))
        kinds[0] += 0.5 * (smoothed + ALPHA * divergence)
        kinds[1] += -0.5 * (p[labels[row, column]] + q[labels[row, column]])
    return [*kinds, np.count_nonzero(labels)]


def automatic_gradients(hidden, table, labels, bias, smoothing):
    with tf.GradientTape() as tape:
        tape.watch([hidden, table, bias])
        p, q = tf.split(tf.nn.log_softmax(tf.einsum("btd,vd->btv", hidden, table) + bias), 2)
        divergence = 0.5 * tf.reduce_sum(tf.exp(p) * (p - q) + tf.exp(q) * (q - p), -1)
        target = (1 - smoothing) * tf.one_hot(labels, V) + smoothing / V
        tokens = -tf.reduce_sum(target * (p + q), -1) + ALPHA * divergence
        loss = SCALE * 0.5 * tf.reduce_sum(tf.where(labels != 0, tokens, 0.0))
    return tape.gradient(loss, [hidden, table, bias])


@pytest.mark.parametrize("chunk_tokens", [100, 8, 2])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradients(chunk_tokens, smoothing):
    hidden, table, labels, bias = problem()
    ours = projected_loss(
        hidden, table, labels, SCALE, bias, smoothing, chunk_tokens=chunk_tokens, r_drop=ALPHA
    )  # fmt: skip
    np.testing.assert_allclose(ours.sums, numpy_loss(hidden, table, labels, bias, smoothing), rtol=1e-5)
    expected = automatic_gradients(hidden, table, labels, bias, smoothing)
    for gradient, reference in zip((ours.hidden_gradient, ours.table_gradient, ours.bias_gradient), expected):
        np.testing.assert_allclose(gradient, reference, atol=2e-5)


def test_equal_passes_have_no_divergence():
    hidden, table, labels, bias = problem()
    once = projected_loss(hidden[:B], table, labels, SCALE, bias, 0.1)
    twice = projected_loss(tf.concat([hidden[:B]] * 2, 0), table, labels, SCALE, bias, 0.1, r_drop=ALPHA)
    np.testing.assert_allclose(twice.sums, once.sums, rtol=1e-6)
    np.testing.assert_allclose(twice.table_gradient, once.table_gradient, atol=1e-6)
    np.testing.assert_allclose(twice.hidden_gradient[:B] + twice.hidden_gradient[B:], once.hidden_gradient, atol=1e-6)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.bfloat16])
def test_unknown_shapes_and_xla_give_the_same(dtype):
    hidden, table, labels, bias = problem()
    expected = projected_loss(hidden, table, labels, SCALE, bias, 0.1, r_drop=ALPHA)

    def loss(hidden, table, labels, bias):
        return projected_loss(hidden, table, labels, SCALE, bias, 0.1, chunk_tokens=4, r_drop=ALPHA)

    shapes = [tf.TensorSpec([None, None, D], dtype), tf.TensorSpec([V, D]), tf.TensorSpec([None, None], tf.int32)]
    dynamic = tf.function(loss, input_signature=[*shapes, tf.TensorSpec([V])])
    tolerance = 1e-5 if dtype == tf.float32 else 0.3
    for function in (dynamic, tf.function(loss, jit_compile=True)):
        found = function(tf.cast(hidden, dtype), table, tf.constant(labels), bias)
        assert found.sums.loss.dtype == tf.float32 and found.hidden_gradient.dtype == dtype
        for ours, theirs in zip(tf.nest.flatten(found), tf.nest.flatten(expected)):
            np.testing.assert_allclose(tf.cast(ours, tf.float32), theirs, atol=tolerance, rtol=0.02)
