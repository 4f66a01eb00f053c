"""The reader of PyTorch's files of weights: no torch, and no pickle that is executed."""

import io
import pickle
import zipfile

import numpy as np
import pytest
from torch_files import torch_file

from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._torch_file import read_torch


def weights():
    random = np.random.default_rng(1)
    return {
        "model.shared.weight": random.normal(size=(7, 3)).astype(np.float32),
        "transposed": random.normal(size=(5, 2)).astype(np.float32).T,
        "half": random.normal(size=11).astype(np.float16),
        "double": random.normal(size=(1, 13)),
    }


@pytest.mark.parametrize(("old", "protocol"), [(False, 2), (False, 4), (True, 2)])
def test_tensors_come_back(tmp_path, old, protocol):
    (tmp_path / "pytorch_model.bin").write_bytes(torch_file(weights(), old, protocol))
    found = read_torch(tmp_path / "pytorch_model.bin")
    assert list(found) == list(weights())
    for name, value in weights().items():
        np.testing.assert_array_equal(found[name], value)


class Trap:
    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return open, (str(self.place), "w")


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_call_of_another_function_is_rejected_by_its_name(tmp_path, wrapped):
    data = pickle.dumps({"a": Trap(tmp_path / "trapped")}, 2)
    if wrapped:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("archive/data.pkl", data)
        part = r"a pickle that calls io\.open, which is not executed"
    else:
        stream = io.BytesIO(data)
        part = r"a pickle that calls io\.open|without the numbers"
    (tmp_path / "pytorch_model.bin").write_bytes(stream.getvalue())
    with pytest.raises(ImportedModelError, match=part):
        read_torch(tmp_path / "pytorch_model.bin")
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("old", [False, True])
def test_integers_and_truncated_files_are_rejected(tmp_path, old):
    file = tmp_path / "pytorch_model.bin"
    file.write_bytes(torch_file({"positions": np.arange(5)}, old))
    with pytest.raises(ImportedModelError, match="Received: LongStorage"):
        read_torch(file)
    data = torch_file(weights(), old)
    for size in (0, 10, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:size])
        with pytest.raises(ImportedModelError, match=r"pytorch_model\.bin"):
            read_torch(file)


def test_a_tensor_beyond_its_storage_is_rejected(tmp_path):
    """The shape (7, 3) of a storage of 21 numbers, made (7, 4)."""
    data = torch_file({"a": np.ones((7, 3), np.float32)})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    shape = b"K\x07K\x03"
    assert members["weights/data.pkl"].count(shape) == 1
    members["weights/data.pkl"] = members["weights/data.pkl"].replace(shape, b"K\x07K\x04")
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ImportedModelError, match="'a', which reaches beyond its storage"):
        read_torch(tmp_path / "pytorch_model.bin")
