import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.training._losses import LabelSmoothedCrossEntropy

B, T, V = 3, 5, 7


def batch(seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(1, V, (B, T)).astype("int32")
    labels[0, 3:] = 0
    labels[2, 1:] = 0
    return random.normal(size=(B, T, V)).astype("float32"), labels


def reference(logits, labels, smoothing):
    """Smoothed loss summed over tokens, and their number, token by token."""
    loss = tokens = 0.0
    for row, label in zip(logits.reshape(-1, V).astype("float64"), labels.reshape(-1)):
        if label == 0:
            continue
        log_probabilities = row - np.log(np.exp(row).sum())
        target = np.full(V, smoothing / V)
        target[label] += 1 - smoothing
        loss -= (target * log_probabilities).sum()
        tokens += 1
    return loss, tokens


def test_all_padding_is_zero():
    logits, labels = batch()
    assert float(LabelSmoothedCrossEntropy()(np.zeros_like(labels), logits)) == 0.0


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_keras_loss_is_the_mean_over_tokens(smoothing):
    logits, labels = batch()
    loss, tokens = reference(logits, labels, smoothing)
    assert float(LabelSmoothedCrossEntropy(smoothing)(labels, logits)) == pytest.approx(loss / tokens, rel=1e-5)


def test_padding_has_no_loss_and_no_gradient():
    logits, labels = batch()
    with tf.GradientTape() as tape:
        watched = tf.constant(logits)
        tape.watch(watched)
        loss = LabelSmoothedCrossEntropy(0.1)(labels, watched)
    gradient = tape.gradient(loss, watched).numpy()
    assert (gradient[labels == 0] == 0).all() and (gradient[labels != 0] != 0).all()


def test_half_precision_logits_are_summed_in_float32():
    logits, labels = batch()
    loss = LabelSmoothedCrossEntropy(0.1).call(labels, tf.constant(logits, tf.float16))
    assert loss.dtype == tf.float32
    assert float(tf.reduce_sum(loss)) == pytest.approx(reference(logits, labels, 0.1)[0], rel=1e-2)


def test_keras_loss_weighs_samples():
    logits, labels = batch()
    weight = np.array([[0.0], [1.0], [0.0]], "float32")
    loss, tokens = reference(logits[1:2], labels[1:2], 0.1)
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


def test_rejects_a_smoothing_of_one():
    with pytest.raises(ValueError, match=r"label_smoothing to be .* Received: 1"):
        LabelSmoothedCrossEntropy(1.0)


@pytest.mark.parametrize("ignore_id", [-100, 99])
def test_the_ignored_label_need_not_be_in_the_vocabulary(ignore_id):
    logits, labels = batch()
    expected = float(LabelSmoothedCrossEntropy(0.1)(labels, logits))
    moved = np.where(labels == 0, ignore_id, labels)
    assert float(LabelSmoothedCrossEntropy(0.1, ignore_id)(moved, logits)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("label", [-1, V])
def test_labels_outside_the_vocabulary_are_rejected(label):
    logits, labels = batch()
    labels[1, 1] = label
    with pytest.raises(
        ValueError, match=rf"Expected labels from 0 to 6, or ignore_id=0\. Received: labels from .*{label}"
    ):
        LabelSmoothedCrossEntropy()(labels, logits)


def test_rejects_a_reduction():
    with pytest.raises(ValueError, match=r"expects no reduction\. Received: reduction='sum'"):
        LabelSmoothedCrossEntropy(reduction="sum")


def test_without_smoothing_an_impossible_word_is_no_trouble():
    logits, labels = batch()
    logits[..., 0] = -np.inf
    assert np.isfinite(LabelSmoothedCrossEntropy(0.0)(labels, logits))


def test_weights_of_rows_are_those_of_their_tokens():
    logits, labels = batch()
    rows = np.array([1.0, 0.5, 2.0], "float32")
    loss = LabelSmoothedCrossEntropy()
    assert float(loss(labels, logits, rows)) == pytest.approx(float(loss(labels, logits, rows[:, None])))
