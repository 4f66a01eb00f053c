"""Models in the formats of others, written from weights of ours, come back with those weights."""

import dataclasses
import json

import h5py
import numpy as np
import pytest
import safetensors.numpy
from external_toys import huggingface_toy, marian_toy, student_toy
from toy_workdir import TOY, toy_sentences, toy_workdir

from tf_transformer.export._ctranslate2 import export_ctranslate2
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._importer import import_model
from tf_transformer.layers._position import sinusoidal_encoding
from tf_transformer.workdir._weights import model_tensors
from tf_transformer.workdir.checkpoints import load_model_tensors

OPTIONS = {
    "paper": {},
    "t2t": {"norm": "pre", "positions": "t2t", "attention_bias": False},
    "marian": {
        "positions": "marian",
        "activation": "swish",
        "output_bias": True,
        "tied_embeddings": "target",
        "target_vocab_size": 160,
    },
    "learned": {"positions": "learned", "activation": "gelu", "scale_embeddings": False, "tied_embeddings": "none"},
    "wide keys": {"key_dim": 11, "value_dim": 3, "norm_epsilon": 1e-2},
}


def check_equal(found, expected):
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("name", OPTIONS)
def test_our_models_come_back_from_ctranslate2_to_the_bit(name, tmp_path):
    workdir = toy_workdir(tmp_path / "run", dataclasses.replace(TOY, **OPTIONS[name]))
    imported = import_model(export_ctranslate2(workdir, tmp_path / "exported"), tmp_path / "imported")
    expected = dataclasses.replace(workdir.config.model, target_vocab_size=None)
    assert dataclasses.replace(imported.config.model, dropout=expected.dropout) == expected
    check_equal(load_model_tensors(imported.checkpoint()), load_model_tensors(workdir.checkpoint()))
    assert imported.tokenizers.sha256 == workdir.tokenizers.sha256
    assert imported.checkpoint().name == "step-00000000"


@pytest.mark.parametrize("kind", ["float16", "int16", "int8", "int8_float16"])
def test_rounded_weights_are_as_near_as_their_format(kind, tmp_path):
    workdir = toy_workdir(tmp_path / "run")
    imported = import_model(export_ctranslate2(workdir, tmp_path / kind, quantization=kind), tmp_path / "imported")
    before, after = (load_model_tensors(each.checkpoint()) for each in (workdir, imported))
    assert sorted(before) == sorted(after)
    for name, value in before.items():
        largest = np.abs(value).max()
        # One scale of int16 serves queries, keys and values together, of which another may have the largest value.
        step = {"float16": 2**-11, "int16": 2**-10, "int8": 1 / 254, "int8_float16": 1 / 254}[kind]
        assert np.abs(after[name] - value).max() <= 1.001 * step * largest, name
        assert after[name].dtype == np.float32
    kernel = "encoder/layer_1/feed_forward/inner/kernel"
    assert np.abs(after[kernel] - before[kernel]).max() > 0


@pytest.mark.parametrize("toy", [huggingface_toy, marian_toy, student_toy])
def test_external_weights_become_ours(toy, tmp_path):
    toy = toy(tmp_path / "external")
    imported = import_model(toy.folder, tmp_path / "run")
    assert dataclasses.replace(imported.config.model, dropout=0.1) == toy.model.config
    check_equal(load_model_tensors(imported.checkpoint()), model_tensors(toy.model))
    for text in toy_sentences(7, seed=9):
        ids = imported.tokenizers.source.encode(text)
        assert [imported.tokenizers.source.pieces([i])[0] for i in ids] == [toy.pieces[i] for i in ids]
        assert imported.tokenizers.target.decode(ids) == text


def test_a_quantized_student_is_as_near_as_int8(tmp_path):
    toy = student_toy(tmp_path / "external", quantized=True)
    imported = import_model(toy.folder, tmp_path / "run")
    assert imported.config.model.decoder_autoregression == "ssru"
    assert (imported.config.decoding.beam_size, imported.config.decoding.length_penalty) == (1, "average")
    found = load_model_tensors(imported.checkpoint())
    for name, value in model_tensors(toy.model).items():
        if value.ndim == 1:
            np.testing.assert_array_equal(found[name], value)
        else:
            assert 0 < np.abs(found[name] - value).max() <= 1.001 / 254 * np.abs(value).max(), name


def test_a_student_needs_no_file_that_names_the_others(tmp_path):
    toy = student_toy(tmp_path / "external")
    (toy.folder / "config.toy.yml").unlink()
    first = import_model(toy.folder, tmp_path / "first")
    (toy.folder / "vocab.toy.spm").rename(toy.folder / "srcvocab.toy.spm")
    (toy.folder / "trgvocab.toy.spm").write_bytes((toy.folder / "srcvocab.toy.spm").read_bytes())
    second = import_model(toy.folder / "model.toy.bin", tmp_path / "second")
    for imported in (first, second):
        check_equal(load_model_tensors(imported.checkpoint()), model_tensors(toy.model))


@pytest.mark.parametrize("shared", ["model.shared/model.shared/embeddings", "tf_marian_mt_model/model.shared/weight"])
def test_an_h5_file_gives_what_safetensors_does(shared, tmp_path):
    toy = huggingface_toy(tmp_path / "external")
    write_h5(toy.folder, shared)
    imported = import_model(toy.folder, tmp_path / "run")
    assert imported.config.model.positions == "marian"
    check_equal(load_model_tensors(imported.checkpoint()), model_tensors(toy.model))


def test_an_h5_file_without_its_bias_is_rejected(tmp_path):
    toy = huggingface_toy(tmp_path / "external")
    write_h5(toy.folder)
    with h5py.File(toy.folder / "tf_model.h5", "a") as file:
        del file["final_logits_bias"]
    with pytest.raises(ImportedModelError, match=r"expected final_logits_bias\. Received: weights without it"):
        import_model(toy.folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def write_h5(folder, shared="model.shared/model.shared/embeddings"):
    """tf_model.h5 instead of model.safetensors, with the names that transformers' TensorFlow code wrote.

    They were read off a file of TFMarianMTModel in transformers 4.49; the shared embedding was a TFSharedEmbeddings
    once, with another name. Unlike torch's files, these have the positions, too.
    """
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    table = np.asarray(sinusoidal_encoding(np.arange(64), 26, "marian"))
    with h5py.File(folder / "tf_model.h5", "w") as file:
        file["final_logits_bias/final_logits_bias:0"] = weights.pop("final_logits_bias")
        file[f"model/{shared}:0"] = weights.pop("model.shared.weight")
        for stack in ("encoder", "decoder"):
            file[f"model/tf_marian_mt_model/model/{stack}/embed_positions/embeddings:0"] = table
        for name, value in weights.items():
            matrix = name.endswith(("proj.weight", "fc1.weight", "fc2.weight"))
            file[f"model/tf_marian_mt_model/{h5_name(name)}:0"] = value.T if matrix else value


def h5_name(name):
    """`model.encoder.layers.0.fc1.weight` as Keras has it: `model/encoder/layers.0/fc1/kernel`."""
    *path, last = name.replace("layers.", "layers@").split(".")
    names = {"weight": "gamma", "bias": "beta"} if "norm" in name else {"weight": "kernel"}
    return "/".join([*path, names.get(last, last)]).replace("@", ".")


def test_marians_gelu_is_computed_exactly_with_swish(tmp_path):
    toy = marian_toy(tmp_path / "external", transformer_ffn_activation="gelu")
    imported = import_model(toy.folder, tmp_path / "run")
    assert imported.config.model.activation == "swish"
    name = "decoder/layer_2/feed_forward"
    before, after = model_tensors(toy.model), load_model_tensors(imported.checkpoint())
    x = np.random.default_rng(3).normal(size=(5, 26)).astype("float32")

    def network(weights, activation):
        inner = x @ weights[f"{name}/inner/kernel"] + weights[f"{name}/inner/bias"]
        return activation(inner) @ weights[f"{name}/outer/kernel"] + weights[f"{name}/outer/bias"]

    gelu, swish = (
        network(before, lambda z: z / (1 + np.exp(-1.702 * z))),
        network(after, lambda z: z / (1 + np.exp(-z))),
    )
    np.testing.assert_allclose(swish, gelu, atol=1e-5)


def test_two_vocabularies_in_different_orders(tmp_path):
    workdir = toy_workdir(tmp_path / "run", dataclasses.replace(TOY, tied_embeddings="target"))
    exported = export_ctranslate2(workdir, tmp_path / "exported")
    tokens = json.loads((exported / "shared_vocabulary.json").read_text())
    (exported / "shared_vocabulary.json").unlink()
    # The source in another order than the target: its rows have to be moved, those of the target have not.
    (exported / "source_vocabulary.json").write_text(json.dumps(tokens[::-1]))
    (exported / "target_vocabulary.json").write_text(json.dumps(tokens))
    imported = import_model(exported, tmp_path / "imported")
    before, after = (load_model_tensors(each.checkpoint()) for each in (workdir, imported))
    np.testing.assert_array_equal(after["target_embedding/table"], before["target_embedding/table"])
    source = before["source_embedding/table"]
    np.testing.assert_array_equal(after["source_embedding/table"], np.concatenate([source[:-5:-1], source[:-4]]))
    assert not imported.tokenizers.shared
