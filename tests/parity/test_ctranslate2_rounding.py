"""CTranslate2's int8 differs from float32, and from ours, only by the rounding of each matrix product's input.

It is shown on one layer. Over more of them a sum taken in another order puts a value on the other side of a rounding,
all that follow it change, and the outputs of any two programs part: CTranslate2's own, too, with different libraries.
"""

import dataclasses

import ctranslate2
import numpy as np
import pytest
import tensorflow as tf
from ctranslate2.specs import transformer_spec
from toy_workdir import randomize

from tf_transformer.config import ModelConfig
from tf_transformer.export._ctranslate2_spec import transformer_spec_of
from tf_transformer.layers import Projection
from tf_transformer.model import Transformer
from tf_transformer.workdir._weights import assign_tensors, model_tensors, named_variables

SIZE = 101
CONFIG = ModelConfig(
    num_layers=1, model_dim=128, feed_forward_dim=251, num_heads=4, key_dim=32, value_dim=32, vocab_size=SIZE,
    activation="swish", norm_epsilon=1e-5,
)  # fmt: skip
IDS = np.random.default_rng(3).integers(4, SIZE, (1, 23))


@pytest.fixture(scope="module")
def model():
    """A model whose weights are whole numbers from -127 to 127 times a factor a row, as int8 has them."""
    model = Transformer(CONFIG)
    randomize(model)
    tensors = model_tensors(model)
    for name, value in tensors.items():
        if value.ndim == 2:
            axis = 1 if name.endswith("table") else 0
            scale = 127.0 / np.abs(value).max(axis=axis, keepdims=True)
            tensors[name] = np.round(value * scale) / scale
    assign_tensors(named_variables(model), tensors, "toy")
    return model


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    """Its encoder as an encoder of CTranslate2's."""
    folder = tmp_path_factory.mktemp("encoder")
    spec = transformer_spec_of(dataclasses.replace(CONFIG), model_tensors(model), 64)
    encoder = transformer_spec.TransformerEncoderModelSpec(spec.encoder)
    encoder.register_vocabulary([f"<{i}>" for i in range(SIZE)])
    encoder.config.unk_token, encoder.config.layer_norm_epsilon = "<1>", CONFIG.norm_epsilon
    encoder.validate()
    encoder.optimize(quantization="int8")
    encoder.save(str(folder))
    return folder


def theirs(folder, kind):
    runtime = ctranslate2.Encoder(str(folder), compute_type=kind, intra_threads=1)
    return np.array(runtime.forward_batch(IDS.tolist()).last_hidden_state)


def rounded(x):
    """Each row as whole numbers from -127 to 127 times one factor."""
    scale = 127.0 / tf.reduce_max(tf.abs(x), axis=-1, keepdims=True)
    return tf.round(x * scale) / scale


def test_rounded_inputs_give_int8s_numbers(model, folder, monkeypatch):
    plain = np.asarray(model.encode(IDS))
    np.testing.assert_allclose(plain, theirs(folder, "float32"), atol=1e-4)
    int8 = theirs(folder, "int8")
    assert np.abs(plain - int8).mean() > 1e-3
    project = Projection.call
    monkeypatch.setattr(Projection, "call", lambda layer, x: project(layer, rounded(x)))
    difference = np.abs(np.asarray(model.encode(IDS)) - int8)
    # A few values may fall to the other side of a rounding.
    assert difference.mean() < 0.05 * np.abs(plain - int8).mean()
