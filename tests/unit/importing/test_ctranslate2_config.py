"""The settings beside CTranslate2's weights: honoured, or rejected by name."""

import json

import numpy as np
import pytest
from ctranslate2_files import model, variable
from toy_workdir import TOY, toy_workdir

from tf_transformer.export._ctranslate2 import export_ctranslate2
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._importer import import_model
from tf_transformer.importing.ctranslate2._binary_model import read_binary_model
from tf_transformer.workdir.checkpoints import load_model_tensors

REJECTED = {
    "add_source_bos": (True, "expected false as add_source_bos. Received: true"),
    "add_source_eos": ("yes", "expected true or false as add_source_eos. Received: 'yes'"),
    "decoder_start_token": (None, "expected a token as decoder_start_token. Received: null"),
    "eos_token": (["</s>"], "expected a token as eos_token"),
    "unk_token": (7, "expected a token as unk_token. Received: 7"),
    "layer_norm_epsilon": (-1e-5, "expected a number above 0 as layer_norm_epsilon"),
}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return toy_workdir(tmp_path_factory.mktemp("config") / "run", TOY)


@pytest.fixture
def exported(workdir, tmp_path):
    return export_ctranslate2(workdir, tmp_path / "exported")


def change(exported, **settings):
    config = json.loads((exported / "config.json").read_text())
    (exported / "config.json").write_text(json.dumps(config | settings))


@pytest.mark.parametrize("field", REJECTED)
def test_settings_that_we_have_no_part_for_are_rejected(field, exported, tmp_path):
    value, message = REJECTED[field]
    change(exported, **{field: value})
    with pytest.raises(ImportedModelError, match=f"config.json: {message}"):
        import_model(exported, tmp_path / "imported")
    assert [path.name for path in tmp_path.iterdir()] == ["exported"]


def test_a_folder_without_its_settings_is_rejected(exported, tmp_path):
    (exported / "config.json").unlink()
    with pytest.raises(ImportedModelError, match=r"expected config.json"):
        import_model(exported, tmp_path / "imported")


def test_a_decoder_may_start_from_the_end_token(workdir, exported, tmp_path):
    change(exported, decoder_start_token="</s>")
    imported = import_model(exported, tmp_path / "imported")
    before, after = (load_model_tensors(each.checkpoint()) for each in (workdir, imported))
    table, ours = before["source_embedding/table"], after["source_embedding/table"]
    # Padding, unknown, start: a copy of the end's row; the old start is a token like others now.
    np.testing.assert_array_equal(ours, table[[0, 1, 3, 3, 2, *range(4, len(table))]])
    assert after["output_bias"][2] < -100 and not after["output_bias"][3:].any()
    assert imported.tokenizers.source.encode("the dog.")[-1] == 3


@pytest.mark.parametrize("ends", [True, False])
def test_models_from_before_config_json(ends, workdir, exported, tmp_path):
    (exported / "config.json").unlink()
    older(exported / "model.bin", with_source_eos=np.int8(ends), eos_token=np.frombuffer(b"</s>", np.int8))
    imported = import_model(exported, tmp_path / "imported")
    assert imported.tokenizers.source.add_eos is ends
    before, after = (load_model_tensors(each.checkpoint()) for each in (workdir, imported))
    assert sorted(before) == sorted(after)
    assert all(np.array_equal(after[name], value) for name, value in before.items())
    assert imported.config.model.norm == "post" and imported.config.model.num_heads == TOY.num_heads
    older(exported / "model.bin", with_source_bos=np.int8(1))
    with pytest.raises(ImportedModelError, match=r"model.bin: expected false as add_source_bos"):
        import_model(exported, tmp_path / "again")


def older(file, **more):
    """Rewrites a model.bin as CTranslate2 wrote it before version 3: common flags, settings among the variables."""
    variables = {name: np.asarray(value) for name, value in (read_binary_model(file).variables | more).items()}
    for flag in ("num_heads", "pre_norm", "activation"):
        if f"encoder/{flag}" in variables:
            variables[flag] = variables.pop(f"encoder/{flag}")
            del variables[f"decoder/{flag}"]
    if "encoder/embeddings_0/weight" in variables:
        variables["encoder/embeddings/weight"] = variables.pop("encoder/embeddings_0/weight")
        for stack in ("encoder", "decoder"):
            scaled = variables.pop(f"{stack}/scale_embeddings")
            variables[f"{stack}/embeddings/multiply_by_sqrt_depth"] = scaled
    written = [variable(name, value) for name, value in variables.items()]
    file.write_bytes(model(*written, version=5, revision=4))
