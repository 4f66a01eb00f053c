import struct

import numpy as np
import pytest
from marian_files import INTGEMM8, INTGEMM16, binary_model, shortlist

from tf_transformer.importing import ImportedModelError
from tf_transformer.importing.marian._binary import is_marian_binary, read_marian_binary, read_shortlist

random = np.random.default_rng(2)
TENSORS = {
    "Wemb": random.normal(size=(7, 5)).astype("float32"),
    "encoder_l1_ffn_W1": random.normal(size=(5, 11)).astype("float32"),
    "encoder_l1_ffn_b1": random.normal(size=(1, 11)).astype("float16"),
    "special:model.yml": np.frombuffer(b"type: transformer\n\0", np.int8),
}


@pytest.mark.parametrize("padded", [True, False])
def test_plain_tensors_are_read_as_they_are(padded, tmp_path):
    file = tmp_path / "model.bin"
    file.write_bytes(binary_model(TENSORS, padded=padded))
    found = read_marian_binary(file)
    assert is_marian_binary(file)
    assert list(found) == list(TENSORS)
    for name, value in TENSORS.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(("kind", "steps"), [(INTGEMM8, 127), (INTGEMM16, 32767)])
def test_quantized_tensors_are_divided_by_their_factor_and_transposed(kind, steps, tmp_path):
    file = tmp_path / "model.bin"
    file.write_bytes(binary_model(TENSORS, {"Wemb": kind, "encoder_l1_ffn_W1": kind}))
    found = read_marian_binary(file)
    for name in ("Wemb", "encoder_l1_ffn_W1"):
        np.testing.assert_allclose(found[name], TENSORS[name], atol=0.51 * np.abs(TENSORS[name]).max() / steps)
        assert found[name].dtype == np.float32


def test_factors_of_activations_are_left_out(tmp_path):
    file = tmp_path / "model.bin"
    factor = {"encoder_l1_ffn_W1_QuantMultA": np.ones((1, 1), np.float32)}
    file.write_bytes(binary_model(factor | TENSORS, {"encoder_l1_ffn_W1": INTGEMM8}))
    assert list(read_marian_binary(file)) == list(TENSORS)


def changed(offset: int, form: str, value: int, data: bytes | None = None) -> bytes:
    data = bytearray(data or binary_model(TENSORS))
    struct.pack_into(form, data, offset, value)
    return bytes(data)


SHAPES = 16 + 4 * 32 + sum(len(name) + 1 for name in TENSORS)
BAD = {
    "empty": (b"", "truncated"),
    "version": (changed(0, "<Q", 2), "binary format, version 1"),
    "count": (changed(8, "<Q", 2**60), "truncated"),
    "name": (changed(16, "<Q", 2**63), "no name of a tensor"),
    "type": (changed(24, "<Q", 0x5101), "'Wemb' of type 0x5101.*one kind of processor"),
    "rank": (changed(32, "<Q", 2**40), "dimensions"),
    "length": (changed(40, "<Q", 2**62), "'Wemb' of shape .7, 5. with"),
    "negative": (changed(SHAPES, "<i", -7), r"'Wemb' of shape \(-7, 5\)"),
    "zero": (changed(SHAPES, "<i", 0), r"'Wemb' of shape \(0, 5\)"),
    "huge": (changed(SHAPES, "<i", 2**31 - 1), "bytes instead of"),
    "padding": (changed(SHAPES + 28, "<Q", 2**63), "truncated"),
    "twice": (binary_model(TENSORS).replace(b"special:model.yml\0", b"encoder_l1_ffn_W1\0"), "the same name"),
    "truncated": (binary_model(TENSORS)[:-1], "truncated"),
    "trailing": (binary_model(TENSORS) + b"\0", "1 bytes behind its end"),
    "vector": (binary_model({"a": np.ones(3, np.float32)}, {"a": INTGEMM8}), "no matrix of a layer"),
    "output": (binary_model({"a_Wt": TENSORS["Wemb"]}, {"a_Wt": INTGEMM8}), "no matrix of a layer"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_models_are_rejected_with_their_name(kind, tmp_path):
    data, message = BAD[kind]
    file = tmp_path / "model.bin"
    file.write_bytes(data)
    with pytest.raises(ImportedModelError, match=message) as error:
        read_marian_binary(file)
    assert str(file) in str(error.value)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_factors_must_be_positive(factor, tmp_path):
    file = tmp_path / "model.bin"
    data = binary_model({"Wemb": TENSORS["Wemb"]}, {"Wemb": INTGEMM8}, padded=False)
    file.write_bytes(data[:-4] + struct.pack("<f", factor))
    with pytest.raises(ImportedModelError, match=r"the factor .* of 'Wemb'"):
        read_marian_binary(file)


def test_a_shortlist_gives_the_rows_of_each_source_row(tmp_path):
    file = tmp_path / "lex.bin"
    file.write_bytes(shortlist([[], [5, 9], [3]], frequent=7))
    found = read_shortlist(file)
    assert found.frequent == 7
    assert [found.of(row).tolist() for row in range(3)] == [[], [5, 9], [3]]
    assert not is_marian_binary(file)


LISTS = shortlist([[], [5, 9], [3]])
BAD_LISTS = {
    "magic": (shortlist([[1]], magic=7), "expected a shortlist of Marian"),
    "truncated": (LISTS[:-1], "truncated"),
    "trailing": (LISTS + b"\0", "behind its end"),
    "offsets": (changed(48 + 16, "<Q", 2**40, LISTS), "offsets"),
    "count": (changed(32, "<Q", 2**61, LISTS), "truncated"),
    "empty": (shortlist([]), "offsets"),
}


@pytest.mark.parametrize("kind", BAD_LISTS)
def test_bad_shortlists_are_rejected(kind, tmp_path):
    data, message = BAD_LISTS[kind]
    file = tmp_path / "lex.bin"
    file.write_bytes(data)
    with pytest.raises(ImportedModelError, match=message) as error:
        read_shortlist(file)
    assert "lex.bin" in str(error.value)
