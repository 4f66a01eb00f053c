"""The search settings that a model states become the defaults of its work directory."""

import json

import pytest
import yaml
from external_toys import huggingface_toy, marian_toy
from toy_workdir import toy_workdir

from tf_transformer.config import DecodingConfig
from tf_transformer.export._ctranslate2 import export_ctranslate2
from tf_transformer.importing._assembly import assemble
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._importer import read_model


def search_of(folder):
    decoding = assemble(read_model(folder)).config.decoding
    return decoding.beam_size, decoding.length_penalty, decoding.alpha


def test_marians_decoder_yml(tmp_path):
    folder = marian_toy(tmp_path / "external").folder
    default = DecodingConfig()
    assert search_of(folder) == (default.beam_size, default.length_penalty, default.alpha)
    for options, expected in (
        ({"beam-size": 6, "normalize": 1.5}, (6, "average", 1.5)),
        ({"beam-size": 12}, (12, "average", 0.0)),
        ({"beam-size": 1, "normalize": True}, (1, "average", 1.0)),
    ):
        (folder / "decoder.yml").write_text(yaml.safe_dump(options))
        assert search_of(folder) == expected


def test_hugging_faces_generation_config(tmp_path):
    folder = huggingface_toy(tmp_path / "external").folder
    assert search_of(folder) == (1, "average", 1.0)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_beams": 6}))
    assert search_of(folder) == (6, "average", 1.0)
    (folder / "generation_config.json").write_text(json.dumps({"num_beams": 4, "length_penalty": 0.8}))
    assert search_of(folder) == (4, "average", 0.8)
    for value, expected in ((True, True), (False, False), ("never", False)):
        (folder / "generation_config.json").write_text(json.dumps({"num_beams": 4, "early_stopping": value}))
        assert assemble(read_model(folder)).config.decoding.early_stopping is expected
    (folder / "generation_config.json").write_text(json.dumps({"early_stopping": "always"}))
    with pytest.raises(ImportedModelError, match=r"generation_config\.json: expected true, false or 'never'"):
        read_model(folder)


def test_ctranslate2s_defaults(tmp_path):
    folder = export_ctranslate2(toy_workdir(tmp_path / "run"), tmp_path / "exported")
    assert search_of(folder) == (2, "average", 1.0)
    assert assemble(read_model(folder)).config.decoding.early_stopping
    assert not DecodingConfig().early_stopping


@pytest.mark.parametrize("options", [{"beam-size": 0}, {"beam-size": 10**6}, {"beam-size": "x"}, {"normalize": -1.0}])
def test_settings_that_no_search_has_are_rejected(options, tmp_path):
    folder = marian_toy(tmp_path / "external").folder
    (folder / "decoder.yml").write_text(yaml.safe_dump(options))
    with pytest.raises(ImportedModelError, match=r"decoder.yml: expected a (beam size|length normalisation)"):
        read_model(folder)
