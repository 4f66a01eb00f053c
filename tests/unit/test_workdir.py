"""A work directory: which checkpoint is taken, and what it says when there is none."""

import json
import shutil

import numpy as np
import pytest
from toy_workdir import toy_workdir

from tf_transformer.workdir import checkpoints
from tf_transformer.workdir._weights import model_tensors, named_variables
from tf_transformer.workdir._workdir import Workdir, remove_leftovers, write_config
from tf_transformer.workdir.checkpoints import CheckpointError


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return toy_workdir(tmp_path_factory.mktemp("original") / "run")


@pytest.fixture
def workdir(original, tmp_path):
    shutil.copytree(original.path, tmp_path / "run")
    return Workdir(tmp_path / "run")


def add(workdir, name, step):
    tensors = checkpoints.load_model_tensors(workdir.checkpoint("step-00000007"))
    return checkpoints.save_checkpoint(workdir.checkpoints / name, tensors, step=step)


def test_auto_prefers_the_average_then_the_best_then_the_latest(workdir):
    assert workdir.checkpoint().name == "step-00000007"
    add(workdir, "step-00000011", 11)
    assert workdir.checkpoint().name == workdir.checkpoint("latest").name == "step-00000011"
    add(workdir, "best", 7)
    assert workdir.checkpoint().name == "best"
    average = add(workdir, "average", 11)
    assert workdir.checkpoint() == average == workdir.checkpoint(average)
    assert workdir.checkpoint("step-00000007").name == "step-00000007"


def test_auto_tells_of_an_average_that_is_older_than_the_last_checkpoint(workdir, caplog):
    add(workdir, "average", 7)
    add(workdir, "best", 5)
    assert workdir.checkpoint().name == "average"
    assert not caplog.text
    add(workdir, "step-00000011", 11)
    assert workdir.checkpoint().name == "average"
    assert "average is of step 7, but there is step-00000011: run `tf-transformer average" in caplog.text
    caplog.clear()
    workdir.checkpoint("average")  # as it was asked for
    assert not caplog.text


def test_auto_passes_over_a_damaged_one_with_a_warning(workdir, caplog):
    (add(workdir, "best", 7) / checkpoints.MODEL).write_bytes(b"")
    assert workdir.checkpoint().name == "step-00000007"
    assert "best/model.safetensors: expected " in caplog.text


def test_a_damaged_one_that_was_asked_for_is_rejected(workdir):
    (workdir.checkpoints / "step-00000007" / checkpoints.MODEL).write_bytes(b"")
    with pytest.raises(CheckpointError, match="it is damaged"):
        workdir.checkpoint("step-00000007")


def test_a_checkpoint_that_is_not_there_is_named_with_those_that_are(workdir):
    with pytest.raises(CheckpointError, match=r"the checkpoints of .*: step-00000007\. Received: best"):
        workdir.checkpoint("best")
    shutil.rmtree(workdir.checkpoints)
    with pytest.raises(CheckpointError, match=r"Expected a checkpoint in .*\. Received: none yet"):
        workdir.checkpoint()


def test_a_name_is_looked_for_in_the_work_directory_first(workdir, tmp_path, monkeypatch):
    best = add(workdir, "best", 7)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "best").mkdir()
    assert workdir.checkpoint("best") == best
    best.rename(tmp_path / "elsewhere")
    assert workdir.checkpoint("elsewhere").resolve() == tmp_path / "elsewhere"


def test_a_directory_without_a_configuration_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"Expected a work directory. Received: .*, which has no config.json"):
        Workdir(tmp_path)


def test_half_written_files_are_removed_and_nothing_else(workdir, monkeypatch):
    before = {path.name for path in workdir.path.iterdir()}
    for name in (".config.json.writing-12345678", "checkpoints/.best.writing-12345678"):
        (workdir.path / name).write_text("{")
    remove_leftovers(workdir.path)
    assert {path.name for path in workdir.path.iterdir()} == before
    assert [path.name for path in workdir.checkpoints.iterdir()] == ["step-00000007"]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_config(workdir.path, workdir.config)
    assert {path.name for path in workdir.path.iterdir()} == before


def test_two_models_in_one_process_have_the_same_names_and_weights(workdir, caplog):
    caplog.set_level("INFO")
    first, second = workdir.load_model(), workdir.load_model()
    assert list(named_variables(first)) == list(named_variables(second))
    for name, tensor in model_tensors(first).items():
        np.testing.assert_array_equal(tensor, model_tensors(second)[name])
    assert f"Loading the weights of {workdir.checkpoints / 'step-00000007'}." in caplog.text


def test_weights_of_another_model_are_rejected_by_name(workdir):
    config = json.loads((workdir.path / "config.json").read_text())
    config["model"]["num_layers"] += 1
    (workdir.path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"expected the weights of this model\. Received: no .*layer_"):
        Workdir(workdir.path).load_model()
    config["model"]["num_layers"] -= 1
    config["model"]["feed_forward_dim"] += 1
    (workdir.path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"feed_forward/inner/kernel of shape"):
        Workdir(workdir.path).load_model()


def test_a_tokenizer_that_changed_is_rejected(workdir):
    file = workdir.path / "tokenizer.model"
    data = file.read_bytes()
    changed = data.replace(b"ouse", b"ouze", 1)
    assert changed != data
    file.write_bytes(changed)
    with pytest.raises(ValueError, match="the tokenizer that the model was trained with"):
        _ = workdir.tokenizers


def test_a_model_of_one_pair_has_no_other_language(workdir):
    info = workdir.dataset_info
    workdir.__dict__["dataset_info"] = info | {"source_language": "en", "target_language": "de"}
    assert workdir.language_pair() == workdir.language_pair("en") == ("en", "de")
    with pytest.raises(ValueError, match=r"Expected 'en', the source language of .*/run\. Received: 'xx'"):
        workdir.language_pair("xx")
    with pytest.raises(ValueError, match=r"Expected 'de', the target language of .*/run\. Received: 'fr'"):
        workdir.language_pair(None, "fr")
    workdir.__dict__["dataset_info"] = info
    assert workdir.language_pair("xx", "fr") == ("xx", "fr")


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"tokenizer": 5}'])
def test_a_damaged_dataset_info_is_named(workdir, text):
    (workdir.path / "dataset.json").write_text(text)
    with pytest.raises(ValueError, match=r"dataset\.json: expected "):
        _ = workdir.tokenizers
