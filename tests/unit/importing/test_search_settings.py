"""The search settings that a model states become the defaults of its work directory."""

import json

import pytest
import yaml
from external_toys import huggingface_toy, marian_toy
from toy_workdir import toy_workdir

from tf_transformer.config import DecodingConfig
from tf_transformer.decoding import Translator
from tf_transformer.export._ctranslate2 import export_ctranslate2
from tf_transformer.importing._assembly import assemble
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._importer import import_model, read_model
from tf_transformer.importing._report import report

pytestmark = pytest.mark.long


def decoding_of(folder):
    return assemble(read_model(folder)).config.decoding


def search_of(folder):
    decoding = decoding_of(folder)
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
    assert decoding_of(folder).max_length_factor is None
    (folder / "decoder.yml").write_text(yaml.safe_dump({"max-length-factor": 2.5}))
    assert decoding_of(folder).max_length_factor == 2.5


def test_marians_word_penalty(tmp_path):
    """Marian ranks by (log-probability - penalty * length) / length ** normalize."""
    folder = marian_toy(tmp_path / "external").folder
    for options, reward in (
        ({"word-penalty": -0.6}, 0.6),
        ({"word-penalty": -2, "normalize": 0}, 2.0),
        ({"word-penalty": -0.6, "normalize": 1}, 0.0),  # the same for all hypotheses
        ({"word-penalty": 0.6, "normalize": True}, 0.0),
        ({"word-penalty": 0, "normalize": 0.6}, 0.0),
    ):
        (folder / "decoder.yml").write_text(yaml.safe_dump(options))
        found = decoding_of(folder)
        assert (found.length_reward, found.early_stopping) == (reward, reward > 0)
    (folder / "decoder.yml").write_text(yaml.safe_dump({"word-penalty": -0.6}))
    assert "alpha 0, 0.6 per token, early stopping" in report(import_model(folder, tmp_path / "imported"))


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
        assert decoding_of(folder).early_stopping is expected
    (folder / "generation_config.json").write_text(json.dumps({"early_stopping": "always"}))
    with pytest.raises(ImportedModelError, match=r"generation_config\.json: expected true, false or 'never'"):
        read_model(folder)


def test_hugging_faces_limits(tmp_path):
    folder = huggingface_toy(tmp_path / "external").folder
    assert decoding_of(folder).max_length is None and not decoding_of(folder).no_repeat_ngram
    file = folder / "generation_config.json"
    for stated, expected in ((200, 199), (2, 1), (10**30, None), (None, None)):  # the start token is counted
        file.write_text(json.dumps({"max_length": stated, "no_repeat_ngram_size": 3}))
        assert (decoding_of(folder).max_length, decoding_of(folder).no_repeat_ngram) == (expected, 3)
    for stated in ({"max_length": 1}, {"max_length": 2.0}, {"no_repeat_ngram_size": -1}):
        file.write_text(json.dumps(stated))
        with pytest.raises(ImportedModelError, match=r"generation_config\.json: expected a whole number"):
            read_model(folder)


def test_ctranslate2s_defaults(tmp_path):
    folder = export_ctranslate2(toy_workdir(tmp_path / "run"), tmp_path / "exported")
    assert search_of(folder) == (2, "average", 1.0)
    found = decoding_of(folder)
    assert (found.early_stopping, found.min_length, found.max_length) == (True, 1, 256)
    assert not DecodingConfig().early_stopping


def test_failure_detection_is_off(tmp_path):
    """Imported models search once, as their own programs do."""
    toys = [marian_toy(tmp_path / "marian").folder, huggingface_toy(tmp_path / "huggingface").folder]
    toys.append(export_ctranslate2(toy_workdir(tmp_path / "run"), tmp_path / "exported"))
    for folder in toys:
        assert not decoding_of(folder).failure_detection
    workdir = import_model(toys[0], tmp_path / "imported")
    assert Translator.from_workdir(workdir.path).decoding == decoding_of(toys[0])
    assert Translator.from_workdir(workdir.path, failure_detection=True).decoding.failure_detection


REJECTED = (
    {"beam-size": 0},
    {"beam-size": 10**6},
    {"beam-size": "x"},
    {"normalize": -1.0},
    {"max-length-factor": 0.5},
    {"max-length-factor": "x"},
    {"word-penalty": "x"},
    {"word-penalty": True},
    {"word-penalty": -1e9},
    {"word-penalty": 0.5},
    {"word-penalty": -0.5, "normalize": 0.6},
)


@pytest.mark.parametrize("options", REJECTED)
def test_settings_that_no_search_has_are_rejected(options, tmp_path):
    folder = marian_toy(tmp_path / "external").folder
    (folder / "decoder.yml").write_text(yaml.safe_dump(options))
    match = r"decoder.yml: expected a (beam size|length normalization|max-length-factor|word-penalty)"
    with pytest.raises(ImportedModelError, match=match):
        read_model(folder)
