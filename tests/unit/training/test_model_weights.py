"""Weights by name: out of a model and into another one, whichever way its kernels lie."""

import numpy as np
import pytest

from tf_transformer import ModelConfig, Transformer
from tf_transformer.workdir._weights import assign_model, model_tensors, named_variables
from tf_transformer.workdir.checkpoints import CheckpointError

# Key and value projections are square, where a forgotten transpose has no shape to show itself by.
SIZES = dict(vocab_size=23, num_layers=2, model_dim=26, num_heads=2, key_dim=13, value_dim=13, feed_forward_dim=17)
INPUTS = {"source": np.array([[5, 6, 3, 0], [7, 8, 9, 3]]), "target": np.array([[2, 5, 6], [2, 9, 4]])}


def transposed(**changes):
    return Transformer(ModelConfig(**(SIZES | changes)), transposed_kernels=True)


def test_transposed_kernels_compute_the_same():
    plain, turned = Transformer(ModelConfig(**SIZES)), transposed()
    assign_model(turned, model_tensors(plain), "plain")
    assert named_variables(turned)["encoder/layer_1/feed_forward/inner/kernel"].shape == (17, 26)
    np.testing.assert_allclose(turned(INPUTS), plain(INPUTS), atol=1e-5)


def test_names_and_arrays_do_not_tell_how_kernels_lie():
    plain, turned = Transformer(ModelConfig(**SIZES)), transposed()
    assign_model(turned, model_tensors(plain), "plain")
    before, after = model_tensors(plain), model_tensors(turned)
    assert list(before) == list(after)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


def test_weights_that_do_not_fit_are_named():
    tensors = model_tensors(Transformer(ModelConfig(**SIZES)))
    with pytest.raises(CheckpointError, match=r"other is of another model: encoder/layer_0/feed_forward/inner/kernel"):
        assign_model(transposed(feed_forward_dim=19), tensors, "other")
