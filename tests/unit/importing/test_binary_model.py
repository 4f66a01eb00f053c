import struct

import numpy as np
import pytest
from ctranslate2_files import model, variable
from toy_workdir import toy_workdir

from tf_transformer.export._ctranslate2 import export_ctranslate2
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._importer import import_model
from tf_transformer.importing.ctranslate2._binary_model import read_binary_model


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model.bin"


def test_every_type_is_widened_and_scales_are_taken_out(file):
    quantized = np.array([[10, -20, 30], [127, 0, -127]], np.int8)
    file.write_bytes(
        model(
            variable("a/weight", quantized, 1),
            variable("a/weight_scale", np.array([10, 127], np.float32), 0),
            variable("b/weight", np.array([[512, -1024]], np.int16), 2),
            variable("b/weight_scale", np.array(1024, np.float32), 0),
            variable("c", np.array([0.5, 3], np.float16), 4),
            variable("d", (np.array([1.5, -2], np.float32).view(np.uint32) >> 16).astype(np.uint16), 5),
            variable("e", np.array(7, np.int16), 2),
            aliases=[("f/weight", "a/weight")],
        )
    )
    found = read_binary_model(file).variables
    assert sorted(found) == ["a/weight", "b/weight", "c", "d", "e", "f/weight"]
    np.testing.assert_array_equal(found["a/weight"], np.array([[1, -2, 3], [1, 0, -1]], np.float32))
    np.testing.assert_array_equal(found["f/weight"], found["a/weight"])
    np.testing.assert_array_equal(found["b/weight"], [[0.5, -1]])
    np.testing.assert_array_equal(found["c"], [0.5, 3])
    np.testing.assert_array_equal(found["d"], [1.5, -2])
    assert found["e"] == 7
    assert {found[name].dtype for name in ("a/weight", "b/weight", "c", "d")} == {np.dtype("float32")}


GOOD = variable("a", np.zeros((2, 3), np.float32), 0)
BAD = {
    "truncated": (model(GOOD)[:-9], "truncated"),
    "empty": (b"", "truncated"),
    "version": (model(GOOD, version=2), "version 2"),
    "external": (b"PK\x03\x04" + bytes(90), "no.*version|version"),
    "specification": (model(GOOD, name="WhisperSpec"), "'WhisperSpec'"),
    "trailing": (model(GOOD) + b"\0", "1 bytes behind its end"),
    "twice": (model(GOOD, GOOD), "two variables 'a'"),
    "alias": (model(GOOD, aliases=[("b", "c")]), "leads nowhere"),
    "count": (model(GOOD)[:26] + struct.pack("<I", 2**31) + model(GOOD)[30:], "expected a CTranslate2 model"),
    "shape": (model(GOOD.replace(struct.pack("<II", 2, 3), struct.pack("<II", 2, 4))), r"\(2, 4\) and 24 bytes"),
    "overflow": (model(GOOD.replace(struct.pack("<II", 2, 3), struct.pack("<II", 2**31, 2**31))), "and 24 bytes"),
    "scale": (
        model(variable("a", np.zeros((2, 3), np.int8), 1), variable("a_scale", np.ones(3, np.float32), 0)),
        "scales",
    ),
    "no scale": (model(variable("a", np.zeros((2, 3), np.int8), 1)), "int8 without scales"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_files_are_rejected_with_their_name(kind, file):
    data, message = BAD[kind]
    file.write_bytes(data)
    with pytest.raises(ImportedModelError, match=message) as error:
        read_binary_model(file)
    assert "model.bin" in str(error.value)


def test_a_file_truncated_anywhere_or_with_an_unknown_part_writes_nothing(tmp_path):
    workdir = toy_workdir(tmp_path / "run")
    exported = export_ctranslate2(workdir, tmp_path / "exported")
    data = (exported / "model.bin").read_bytes()
    for share in (0.0001, 0.003, 0.5, 0.99, 0.99999):
        (exported / "model.bin").write_bytes(data[: int(share * len(data))])
        with pytest.raises(ImportedModelError, match="expected a CTranslate2 model"):
            import_model(exported, tmp_path / "imported")
    at = data.index(b"decoder/alibi\0")
    value = at + len(b"decoder/alibi\0") + 1 + 1 + 4
    (exported / "model.bin").write_bytes(data[:value] + b"\1" + data[value + 1 :])
    with pytest.raises(ImportedModelError, match="Received: decoder/alibi"):
        import_model(exported, tmp_path / "imported")
    (exported / "model.bin").write_bytes(
        data.replace(b"encoder/layer_1/ffn/linear_0/bias", b"encoder/layer_1/ffn/linear_0/bios")
    )
    with pytest.raises(ImportedModelError, match="encoder/layer_1/ffn/linear_0/bios"):
        import_model(exported, tmp_path / "imported")
    assert not (tmp_path / "imported").exists()
    assert not list(tmp_path.glob(".imported*"))
