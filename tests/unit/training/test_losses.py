import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.training._losses import LabelSmoothedCrossEntropy, cross_entropy_sums

B, T, V = 3, 5, 7


def batch(seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(1, V, (B, T)).astype("int32")
    labels[0, 3:] = 0
    labels[2, 1:] = 0
    return random.normal(size=(B, T, V)).astype("float32"), labels


def reference(logits, labels, smoothing):
    """Smoothed loss and negative log-likelihood summed over tokens, word by word."""
    loss = likelihood = tokens = 0.0
    for row, label in zip(logits.reshape(-1, V).astype("float64"), labels.reshape(-1)):
        if label == 0:
            continue
        log_probabilities = row - np.log(np.exp(row).sum())
        target = np.full(V, smoothing / V)
        target[label] += 1 - smoothing
        loss -= (target * log_probabilities).sum()
        likelihood -= log_probabilities[label]
        tokens += 1
    return loss, likelihood, tokens


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_sums_are_those_of_the_definition(smoothing):
    logits, labels = batch()
    sums = cross_entropy_sums(tf.constant(logits), labels, smoothing)
    np.testing.assert_allclose([float(value) for value in sums], reference(logits, labels, smoothing), rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_custom_gradient_is_the_automatic_one(smoothing):
    logits, labels = batch()
    loss = LabelSmoothedCrossEntropy(smoothing)
    with tf.GradientTape(persistent=True) as tape:
        watched = tf.constant(logits)
        tape.watch(watched)
        ours = 3.0 * cross_entropy_sums(watched, labels, smoothing).loss
        automatic = 3.0 * tf.reduce_sum(loss.call(labels, watched))
    np.testing.assert_allclose(tape.gradient(ours, watched), tape.gradient(automatic, watched), atol=1e-6)


def test_padding_has_no_loss_and_no_gradient_even_where_its_logits_are_not_finite():
    logits, labels = batch()
    logits[0, 3:] = np.nan
    with tf.GradientTape() as tape:
        watched = tf.constant(logits[:, :3])
        tape.watch(watched)
        loss = cross_entropy_sums(watched, labels[:, :3], 0.1).loss
    gradient = tape.gradient(loss, watched).numpy()
    assert np.all(gradient[2, 1:] == 0) and np.all(gradient[0] != 0)
    assert np.isfinite(float(cross_entropy_sums(tf.constant(logits), labels, 0.1).loss))


def test_all_padding_is_zero():
    logits, labels = batch()
    sums = cross_entropy_sums(tf.constant(logits), np.zeros_like(labels), 0.1)
    assert [float(value) for value in sums] == [0.0, 0.0, 0.0]
    assert float(LabelSmoothedCrossEntropy()(np.zeros_like(labels), logits)) == 0.0


def test_keras_loss_is_the_mean_over_tokens():
    logits, labels = batch()
    loss, _, tokens = reference(logits, labels, 0.1)
    assert float(LabelSmoothedCrossEntropy(0.1)(labels, logits)) == pytest.approx(loss / tokens, rel=1e-5)


def test_keras_loss_weighs_samples():
    logits, labels = batch()
    weight = np.array([[0.0], [1.0], [0.0]], "float32")
    loss, _, tokens = reference(logits[1:2], labels[1:2], 0.1)
    assert float(LabelSmoothedCrossEntropy(0.1)(labels, logits, weight)) == pytest.approx(loss / tokens, rel=1e-5)


def test_works_in_compile_and_fit_and_reloads():
    model = keras.Sequential([keras.Input((T,), dtype="int32"), keras.layers.Embedding(V, V)])
    model.compile("adam", loss=LabelSmoothedCrossEntropy(0.2, ignore_id=0))
    _, labels = batch()
    expected = LabelSmoothedCrossEntropy(0.2)(labels, model(labels))
    history = model.fit(labels, labels, batch_size=B, verbose=0)
    assert history.history["loss"][0] == pytest.approx(float(expected), rel=1e-5)
    copy = keras.losses.deserialize(keras.losses.serialize(model.loss))
    assert (copy.label_smoothing, copy.ignore_id, copy.name) == (0.2, 0, "label_smoothed_cross_entropy")


def test_half_precision_logits_are_summed_in_float32():
    logits, labels = batch()
    half = tf.constant(logits, tf.float16)
    sums = cross_entropy_sums(half, labels, 0.1)
    assert sums.loss.dtype == tf.float32
    assert float(sums.loss) == pytest.approx(reference(logits, labels, 0.1)[0], rel=1e-2)


def test_rejects_a_smoothing_of_one():
    with pytest.raises(ValueError, match=r"label_smoothing must be .* not 1"):
        LabelSmoothedCrossEntropy(1.0)
