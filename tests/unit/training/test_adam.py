import keras
import numpy as np
import tensorflow as tf

from tf_transformer.training._optimizer import Adam, trained_variables


def test_is_the_adam_of_keras():
    random = np.random.default_rng(0)
    first = random.normal(size=(3, 5)).astype("float32")
    ours, theirs = keras.Variable(first, name="w"), keras.Variable(first, name="w")
    adam = Adam({"w": ours}, beta1=0.9, beta2=0.98, epsilon=1e-9)
    reference = keras.optimizers.Adam(0.01, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    for update in range(1, 8):
        gradient = tf.constant(random.normal(size=(3, 5)), tf.float32)
        adam.apply({"w": gradient}, tf.constant(0.01), tf.constant(update, tf.int64))
        reference.apply([gradient], [theirs])
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-6)


def test_its_state_is_both_moments_by_name():
    adam = Adam({"a/b": keras.Variable(np.ones((2, 3)), name="b")}, 0.9, 0.98, 1e-9)
    assert {name: tuple(value.shape) for name, value in adam.state().items()} == {
        "adam/first/a/b": (2, 3),
        "adam/second/a/b": (2, 3),
    }


def test_is_the_adamw_of_keras():
    random = np.random.default_rng(0)
    kernel, bias = random.normal(size=(3, 5)).astype("float32"), random.normal(size=5).astype("float32")
    ours = {"kernel": keras.Variable(kernel), "bias": keras.Variable(bias)}
    theirs = [keras.Variable(kernel, name="kernel"), keras.Variable(bias, name="bias")]
    adam = Adam(ours, beta1=0.9, beta2=0.98, epsilon=1e-9, weight_decay=0.3)
    reference = keras.optimizers.AdamW(0.01, weight_decay=0.3, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    reference.exclude_from_weight_decay(var_names=["bias"])
    for update in range(1, 8):
        gradients = [tf.constant(random.normal(size=x.shape), tf.float32) for x in theirs]
        adam.apply(dict(zip(ours, gradients)), tf.constant(0.01), tf.constant(update, tf.int64))
        reference.apply(gradients, theirs)
    for mine, other in zip(ours.values(), theirs):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), atol=1e-6)


def test_frozen_parts_are_left_out():
    variables = dict.fromkeys(("encoder/a", "decoder/b", "source_embedding/table", "output_bias"))
    assert list(trained_variables(variables, "")) == list(variables)
    assert list(trained_variables(variables, "encoder, embeddings")) == ["decoder/b"]
