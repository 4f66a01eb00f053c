"""The model as a Keras user meets it: presets, saving, compile and fit, precision, errors."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import LabelSmoothedCrossEntropy, ModelConfig, NoamSchedule, Transformer
from tf_transformer.config import ConfigError
from tf_transformer.layers import inference_layout

pytestmark = pytest.mark.long

SIZES = dict(vocab_size=23, num_layers=1, model_dim=26, num_heads=3, key_dim=11, value_dim=13, feed_forward_dim=17)
INPUTS = {"source": np.array([[5, 6, 3, 0], [7, 8, 9, 3]]), "target": np.array([[2, 5, 6], [2, 9, 4]])}


def test_from_preset_takes_changes():
    model = Transformer.from_preset("tiny", vocab_size=101, num_layers=1)
    assert model.config.vocab_size == 101 and model.config.num_layers == 1
    assert model(INPUTS).shape == (2, 3, 101)


def test_two_models_in_one_process_have_the_same_names():
    first, second = Transformer(ModelConfig(**SIZES)), Transformer(ModelConfig(**SIZES))
    assert [v.path for v in first.trainable_variables] == [v.path for v in second.trainable_variables]


LAYOUTS = {"training": None, "kernels (out, in)": True, "kernels (in, out)": False}


@pytest.mark.parametrize(
    "saved,loaded,tied",
    [
        ("training", "training", "all"),
        ("training", "kernels (out, in)", "none"),
        ("kernels (out, in)", "kernels (in, out)", "all"),
        ("kernels (in, out)", "training", "none"),
    ],
)
def test_keras_file_round_trip(tmp_path, saved, loaded, tied):
    with layout(saved):
        model = Transformer(ModelConfig(**SIZES, output_bias=True, positions="learned", tied_embeddings=tied))
    model.save(tmp_path / "model.keras")
    with layout(loaded):
        other = keras.models.load_model(tmp_path / "model.keras")
    assert other.config == model.config
    for each, name in ((model, saved), (other, loaded)):
        assert each.is_transposed("encoder/layer_0/self_attention/key/kernel") == (name == "kernels (out, in)")
        shape = (SIZES["vocab_size"], SIZES["model_dim"])
        assert each.output_embedding.table.shape == (shape if name == "training" else shape[::-1])
    np.testing.assert_allclose(other(INPUTS), model(INPUTS), atol=1e-5)


def layout(name):
    transposed = LAYOUTS[name]
    return contextlib.nullcontext() if transposed is None else inference_layout(transposed)


@pytest.mark.parametrize("before", ["call", "fit", "nothing"])
def test_keras_export(tmp_path, before):
    model = Transformer(ModelConfig(**SIZES))
    if before == "call":
        model(INPUTS)
    elif before == "fit":
        model.compile("adam", LabelSmoothedCrossEntropy(0.1))
        model.fit(tf.data.Dataset.from_tensors((INPUTS, np.array([[5, 6, 3], [9, 4, 3]]))), verbose=0)
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    longer = {name: np.concatenate([ids, ids[:, -1:]], axis=1) for name, ids in INPUTS.items()}
    for inputs in (INPUTS, longer):
        logits = exported.serve({name: tf.constant(ids, tf.int32) for name, ids in inputs.items()})
        np.testing.assert_allclose(logits, model(inputs), atol=1e-5)


def test_compile_and_fit_learn():
    model = Transformer(ModelConfig(**SIZES, dropout=0.0))
    schedule = NoamSchedule(model_dim=26, warmup_steps=40)
    optimizer = keras.optimizers.Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    model.compile(optimizer=optimizer, loss=LabelSmoothedCrossEntropy(0.1))
    labels = np.array([[5, 6, 3], [9, 4, 3]])
    dataset = tf.data.Dataset.from_tensors((INPUTS, labels)).repeat(60)
    losses = model.fit(dataset, epochs=2, verbose=0).history["loss"]
    assert losses[1] < 0.7 * losses[0]


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_logits_are_float32_under_mixed_precision(policy):
    exact = Transformer(ModelConfig(**SIZES))
    low = Transformer(ModelConfig(**SIZES), dtype=policy)
    low.set_weights(exact.get_weights())
    logits = low(INPUTS)
    assert logits.dtype == tf.float32
    np.testing.assert_allclose(logits, exact(INPUTS), atol=0.1)


@pytest.mark.parametrize("xla", [False, True])
def test_compiled(xla):
    model = Transformer(ModelConfig(**SIZES))
    compiled = tf.function(model, jit_compile=xla)
    got = compiled({name: tf.constant(value) for name, value in INPUTS.items()})
    np.testing.assert_allclose(got, model(INPUTS), atol=1e-5)


def test_dropout_acts_in_training_only():
    model = Transformer(ModelConfig(**SIZES, dropout=0.5))
    np.testing.assert_array_equal(model(INPUTS), model(INPUTS, training=False))
    assert np.abs(model(INPUTS, training=True) - model(INPUTS)).max() > 1e-2


def test_wrong_inputs_are_rejected():
    model = Transformer(ModelConfig(**SIZES))
    with pytest.raises(ValueError, match=r"expects inputs .* Received: \['source'\]"):
        model({"source": INPUTS["source"]})
    with pytest.raises(ValueError, match=r"`source` ids of shape \(B, length\)\. Received: shape \(4,\)"):
        model({"source": INPUTS["source"][0], "target": INPUTS["target"]})
    with pytest.raises(ValueError, match=r"ids from 0 to 22\. Received: ids from 2 to 23"):
        model({"source": INPUTS["source"], "target": np.array([[2, 23], [2, 4]])})
    with pytest.raises(ConfigError, match=r"Expected one of the presets base, A1, .* Received: 'huge'"):
        Transformer.from_preset("huge")
    segments = np.ones_like(INPUTS["source"])
    with pytest.raises(ValueError, match=r"both or neither of `source_segments` .* Received: only `source_segments`"):
        model({**INPUTS, "source_segments": segments})
    with pytest.raises(ValueError, match=r"expects a ModelConfig\. Received: 'tiny'\. For a preset use"):
        Transformer("tiny")
    with pytest.raises(ValueError, match=r"Expected fields of ModelConfig: vocab_size, .* Received: vocab\."):
        Transformer.from_preset("tiny", vocab=100)
