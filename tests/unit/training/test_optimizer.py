import keras
import numpy as np
import tensorflow as tf

from tf_transformer.config import ModelConfig
from tf_transformer.model import Transformer
from tf_transformer.training._optimizer import Adam, Muon, orthogonalized, trained_variables
from tf_transformer.workdir import named_variables


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


def test_every_weight_belongs_to_a_part_that_can_be_frozen():
    """With all the optional parts: learned positions, normalized embeddings, an output bias, three tables."""
    config = ModelConfig(vocab_size=23, num_layers=1, model_dim=6, feed_forward_dim=7, num_heads=1, key_dim=2,
                         value_dim=3, positions="learned", max_positions=11, embedding_norm=True, output_bias=True,
                         tied_embeddings="none")  # fmt: skip
    model = Transformer(config)
    model({"source": np.array([[4, 3]]), "target": np.array([[2, 5]])})
    variables = named_variables(model)
    assert any(name.startswith("source_positions/") for name in variables)
    assert trained_variables(variables, "encoder,decoder,embeddings") == {}


def test_muon_is_its_formula():
    """One matrix wider than high and one higher than wide, against NumPy, and an embedding, which Adam trains."""
    random = np.random.default_rng(0)
    shapes = {"encoder/wide": (3, 5), "decoder/high": (6, 4), "source_embedding/table": (7, 3), "encoder/bias": (5,)}
    weights = {name: random.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    variables = {name: keras.Variable(value) for name, value in weights.items()}
    adam_variables = {name: keras.Variable(weights[name]) for name in ("source_embedding/table", "encoder/bias")}
    muon = Muon(variables, 0.9, 0.98, 1e-9, weight_decay=0.3, momentum=0.8)
    adam = Adam(adam_variables, 0.9, 0.98, 1e-9, weight_decay=0.3)
    momenta = {name: np.zeros(shapes[name]) for name in ("encoder/wide", "decoder/high")}
    for update in range(1, 5):
        gradients = {name: random.normal(size=shape).astype("float32") for name, shape in shapes.items()}
        arguments = tf.constant(0.01), tf.constant(update, tf.int64)
        muon.apply({name: tf.constant(gradient) for name, gradient in gradients.items()}, *arguments)
        adam.apply({name: tf.constant(gradients[name]) for name in adam_variables}, *arguments)
        for name in momenta:
            momenta[name] = 0.8 * momenta[name] + 0.2 * gradients[name]
            step = newton_schulz(0.8 * momenta[name] + 0.2 * gradients[name])
            change = 0.2 * np.sqrt(max(shapes[name])) * step + 0.3 * weights[name]
            weights[name] = weights[name] - 0.01 * change
    for name in momenta:
        np.testing.assert_allclose(variables[name].numpy(), weights[name], atol=1e-5)
    for name in adam_variables:
        np.testing.assert_array_equal(variables[name].numpy(), adam_variables[name].numpy())
    assert {name for name in muon.state() if name.startswith("muon/")} == {"muon/encoder/wide", "muon/decoder/high"}


def test_muon_takes_attention_head_by_head():
    """Columns of query, key and value kernels and rows of the output's, each block against NumPy."""
    random = np.random.default_rng(1)
    attention = "encoder/layer_0/self_attention"
    shapes = {f"{attention}/query/kernel": (6, 8), f"{attention}/output/kernel": (8, 6)}
    weights = {name: random.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    gradients = {name: random.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    variables = {name: keras.Variable(value) for name, value in weights.items()}
    muon = Muon(variables, 0.9, 0.98, 1e-9, momentum=0.0, num_heads=2)
    muon.apply({name: tf.constant(value) for name, value in gradients.items()}, tf.constant(0.1), tf.constant(1))
    for name, axis in zip(shapes, (1, 0)):
        heads = np.split(gradients[name], 2, axis=axis)
        change = np.concatenate([0.2 * np.sqrt(6) * newton_schulz(head) for head in heads], axis=axis)
        np.testing.assert_allclose(variables[name].numpy(), weights[name] - 0.1 * change, atol=1e-5)


def newton_schulz(matrix: np.ndarray) -> np.ndarray:
    """The polynomial 3.4445 s - 4.775 s³ + 2.0315 s⁵ of the singular values s, five times, by their decomposition."""
    left, values, right = np.linalg.svd(matrix / np.linalg.norm(matrix), full_matrices=False)
    for _ in range(5):
        values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
    return left @ np.diag(values) @ right


def test_orthogonalized_matrices_have_singular_values_close_to_one():
    matrices = np.random.default_rng(0).normal(size=(4, 16, 48)).astype("float32")
    values = np.linalg.svd(orthogonalized(tf.constant(matrices)).numpy(), compute_uv=False)
    assert values.min() > 0.6 and values.max() < 1.3
