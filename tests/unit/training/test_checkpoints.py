import errno
import io
import json
import pathlib

import numpy as np
import pytest

from tf_transformer.workdir import checkpoints
from tf_transformer.workdir.checkpoints import CheckpointError, save_checkpoint, step_directory, verify_checkpoint

MODEL = {"encoder/kernel": np.arange(6, dtype="float32").reshape(2, 3), "decoder/bias": np.zeros(5, "float32")}
TRAINING = {"adam/momentum": np.ones((2, 3), "float32"), "step": np.array(7)}


def save(directory, step, **info):
    return save_checkpoint(directory / step_directory(step), MODEL, TRAINING, step=step, **info)


def flip_a_bit(file: pathlib.Path, place: int = -1):
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def test_what_is_saved_is_loaded(tmp_path):
    path = save(tmp_path, 7, position={"epoch": 2, "batch": 11})
    info = verify_checkpoint(path)
    assert (info["step"], info["position"]) == (7, {"epoch": 2, "batch": 11})
    model, training = checkpoints.load_model_tensors(path), checkpoints.load_training_tensors(path)
    assert model.keys() == MODEL.keys() and training.keys() == TRAINING.keys()
    np.testing.assert_array_equal(model["encoder/kernel"], MODEL["encoder/kernel"])
    assert training["step"] == 7


def test_nothing_else_is_left_beside_it(tmp_path):
    save(tmp_path, 7)
    save(tmp_path, 7)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000007"]


@pytest.mark.parametrize("file", [checkpoints.MODEL, checkpoints.TRAINING, checkpoints.INFO])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing", "empty"])
def test_damage_is_found(tmp_path, file, damage):
    path = save(tmp_path, 7)
    if damage == "flipped":
        flip_a_bit(path / file, -3)
    elif damage == "truncated":
        (path / file).write_bytes((path / file).read_bytes()[:-5])
    elif damage == "missing":
        (path / file).unlink()
    else:
        (path / file).write_bytes(b"")
    with pytest.raises(CheckpointError, match=f"{path.name}"):
        verify_checkpoint(path)


def test_an_edited_step_is_found(tmp_path):
    path = save(tmp_path, 7)
    info = json.loads((path / checkpoints.INFO).read_text())
    (path / checkpoints.INFO).write_text(json.dumps({**info, "step": 8}))
    with pytest.raises(CheckpointError, match="expected the SHA-256"):
        verify_checkpoint(path)


def test_a_damaged_newest_one_gives_way_to_the_one_before_with_a_warning(tmp_path, caplog):
    older, newer = save(tmp_path, 7), save(tmp_path, 100_000_000)
    assert checkpoints.latest_intact(tmp_path) == newer
    flip_a_bit(newer / checkpoints.MODEL)
    assert checkpoints.latest_intact(tmp_path) == older
    assert "step-100000000/model.safetensors: expected " in caplog.text


@pytest.mark.parametrize("file", [checkpoints.MODEL, checkpoints.INFO])
def test_one_that_the_disk_does_not_give_gives_way_too(tmp_path, monkeypatch, caplog, file):
    older, newer = save(tmp_path, 7), save(tmp_path, 8)
    opened = io.open

    def failing(name, *arguments, **options):
        if pathlib.Path(name) == newer / file:
            raise OSError(errno.EIO, "Input/output error")
        return opened(name, *arguments, **options)

    monkeypatch.setattr(io, "open", failing)
    assert checkpoints.latest_intact(tmp_path, resumable=True) == older
    assert f"step-00000008/{file}: expected a file that can be read. Received: [Errno 5]" in caplog.text


def test_all_damaged_is_an_error_and_none_is_none(tmp_path):
    assert checkpoints.latest_intact(tmp_path) is None
    flip_a_bit(save(tmp_path, 7) / checkpoints.MODEL)
    with pytest.raises(CheckpointError, match=r"Expected an intact checkpoint in .*\. Received: \d, all damaged"):
        checkpoints.latest_intact(tmp_path)


def test_a_model_alone_is_no_place_to_resume_from(tmp_path):
    older = save(tmp_path, 7)
    newer = save_checkpoint(tmp_path / step_directory(8), MODEL, step=8)
    assert checkpoints.latest_intact(tmp_path) == newer
    assert checkpoints.latest_intact(tmp_path, resumable=True) == older


def test_prune_keeps_the_last(tmp_path):
    for step in (3, 20, 100):
        save(tmp_path, step)
    checkpoints.prune_checkpoints(tmp_path, keep=2)
    assert [path.name for path in checkpoints.list_checkpoints(tmp_path)] == ["step-00000020", "step-00000100"]
    assert len(list(tmp_path.iterdir())) == 2


def test_later_ones_are_set_aside_and_no_longer_count(tmp_path):
    for step in (3, 20, 100):
        save(tmp_path, step)
    (tmp_path / "step-00000100.aside").mkdir()
    checkpoints.set_aside_after(tmp_path, 20)
    assert [path.name for path in checkpoints.list_checkpoints(tmp_path)] == ["step-00000003", "step-00000020"]
    assert verify_checkpoint(tmp_path / "step-00000100.aside")["step"] == 100


def test_a_failed_write_raises_and_changes_nothing(tmp_path, monkeypatch):
    save_checkpoint(tmp_path / "best", MODEL, step=5)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "_write_info", full)
    with pytest.raises(OSError, match=r"best could not be written .*No space left.* Earlier ones are unchanged"):
        save_checkpoint(tmp_path / "best", MODEL, step=6)
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
    assert verify_checkpoint(tmp_path / "best")["step"] == 5


def test_a_newer_format_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "FORMAT", 2)
    path = save(tmp_path, 7)
    monkeypatch.setattr(checkpoints, "FORMAT", 1)
    with pytest.raises(CheckpointError, match=r"format 1 or lower\. Received: .* of format 2"):
        verify_checkpoint(path)


@pytest.mark.parametrize("change", [{"files": {}}, {"files": {"../x": {}}}, {"format": None}, {"step": "7"}])
def test_another_structure_with_the_right_checksum_is_damage(tmp_path, change):
    path = save(tmp_path, 7)
    info = json.loads((path / "checkpoint.json").read_text())
    del info["sha256"]
    info |= change
    (path / "checkpoint.json").write_text(json.dumps(info | {"sha256": checkpoints._info_digest(info)}))
    with pytest.raises(
        CheckpointError, match=r"checkpoint\.json: expected `format`, `step` and `files`.*it is damaged"
    ):
        verify_checkpoint(path)


def test_weights_that_are_integers_are_rejected(tmp_path):
    path = save_checkpoint(tmp_path / "x", {"a/kernel": np.ones((2, 3), np.int64)}, step=1)
    with pytest.raises(
        CheckpointError, match=r"model\.safetensors: expected weights of a floating type.*'a/kernel' int64"
    ):
        checkpoints.load_model_tensors(path)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: expected weights of a floating type"):
        checkpoints.ModelTensors(path)["a/kernel"]


@pytest.mark.parametrize("piece", [7, 2**24])
def test_weights_may_be_read_one_by_one(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(checkpoints, "_PIECE_NUMBERS", piece)
    weights = {"a/kernel": np.arange(33, dtype=np.float32).reshape(11, 3), "b/bias": np.ones(19, np.float16)}
    weights["c"] = np.array(2.5, np.float32)
    path = save_checkpoint(tmp_path / "x", weights, step=1)
    found = checkpoints.ModelTensors(path)
    assert sorted(found) == sorted(weights) and len(found) == 3 and "d" not in found
    for name, value in weights.items():
        np.testing.assert_array_equal(found[name], value)
    data = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(data[:-1])
    with pytest.raises(CheckpointError, match=r"model\.safetensors: expected a file that can be read"):
        found["a/kernel"]
    with pytest.raises(CheckpointError, match=r"model\.safetensors: expected a file that can be read"):
        checkpoints.ModelTensors(path)
