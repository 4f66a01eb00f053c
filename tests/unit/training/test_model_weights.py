"""Weights by name: out of a model and into another one, whatever their layout."""

import numpy as np
import pytest

from tf_transformer import ModelConfig, Transformer, _cpu
from tf_transformer.layers import _embedding, inference_layout
from tf_transformer.workdir._weights import assign_model, model_tensors, named_variables
from tf_transformer.workdir.checkpoints import CheckpointError

# Key and value projections are square, where a forgotten transpose has no shape to show itself by.
SIZES = dict(vocab_size=23, num_layers=2, model_dim=26, num_heads=2, key_dim=13, value_dim=13, feed_forward_dim=17)
INPUTS = {"source": np.array([[5, 6, 3, 0], [7, 8, 9, 3]]), "target": np.array([[2, 5, 6], [2, 9, 4]])}


LAYOUTS = pytest.mark.parametrize(
    "layout", [(True, False), (False, False), (True, True)], ids=["kernels (out, in)", "kernels (in, out)", "rows"]
)


def for_inference(layout=(True, False), **changes):
    with inference_layout(*layout):
        return Transformer(ModelConfig(**(SIZES | changes)))


@LAYOUTS
@pytest.mark.parametrize("tied", ["all", "none"])
def test_layouts_compute_the_same(layout, tied):
    plain, other = (
        Transformer(ModelConfig(**SIZES, tied_embeddings=tied)),
        for_inference(layout, tied_embeddings=tied),
    )
    assign_model(other, model_tensors(plain), "plain")
    kernel = named_variables(other)["encoder/layer_1/feed_forward/inner/kernel"]
    assert kernel.shape == ((17, 26) if layout[0] else (26, 17))
    assert other.output_embedding.table.shape == ((23, 26) if layout[1] else (26, 23))
    np.testing.assert_allclose(other(INPUTS), plain(INPUTS), atol=1e-5)
    ids = np.array([[0, 22], [7, 7]])
    np.testing.assert_array_equal(other.output_embedding.rows(ids), plain.output_embedding.rows(ids))


def test_large_tables_stay_as_rows(monkeypatch):
    monkeypatch.setattr(_embedding, "_MOST_COLUMNS", 23 * 26 - 1)
    assert not for_inference().output_embedding.transposed


@LAYOUTS
def test_names_and_arrays_do_not_depend_on_the_layout(layout):
    plain, other = Transformer(ModelConfig(**SIZES)), for_inference(layout)
    assign_model(other, model_tensors(plain), "plain")
    before, after = model_tensors(plain), model_tensors(other)
    assert list(before) == list(after)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


def test_weights_that_do_not_fit_are_named():
    tensors = model_tensors(Transformer(ModelConfig(**SIZES)))
    with pytest.raises(CheckpointError, match=r"other: expected encoder/layer_0/feed_forward/inner/kernel"):
        assign_model(for_inference(feed_forward_dim=19), tensors, "other")


def test_large_weights_are_assigned(monkeypatch):
    monkeypatch.setattr("tf_transformer.workdir._weights._LARGE", 300)
    plain, transposed = Transformer(ModelConfig(**SIZES)), for_inference()
    assign_model(transposed, model_tensors(plain), "plain")
    for name, value in model_tensors(plain).items():
        np.testing.assert_array_equal(model_tensors(transposed)[name], value)


@pytest.mark.parametrize("flags", ["sse4_2 avx2 fma", "avx2 avx512f avx512_vnni"])
def test_the_layout_is_chosen_by_the_cpu(monkeypatch, tmp_path, flags):
    (tmp_path / "cpuinfo").write_text(f"model name\t: a CPU\nflags\t\t: fpu {flags} hypervisor\n")
    monkeypatch.setattr(_cpu, "_FACTS", tmp_path / "cpuinfo")
    _cpu.cpu_flags.cache_clear()
    with inference_layout():
        model = Transformer(ModelConfig(**SIZES))
    _cpu.cpu_flags.cache_clear()
    assert model.is_transposed("decoder/layer_0/feed_forward/outer/kernel") == ("avx512f" not in flags)
    assert model.output_embedding.transposed


def test_assigned_variables_are_read_without_a_copy(monkeypatch):
    """TensorFlow copies a variable at each read once a slice of it was assigned."""
    monkeypatch.setattr("tf_transformer.workdir._weights._LARGE", 300)
    model = for_inference()
    assign_model(model, model_tensors(model), "itself")
    for variable in model.weights:
        first, second = variable.value.read_value(), variable.value.read_value()
        assert address(first) == address(second), variable.path


def address(tensor) -> int:
    return np.asarray(memoryview(tensor)).__array_interface__["data"][0]
