"""Files made to exhaust memory or time, or to end in a traceback: each is rejected by a message that names it."""

import io
import json
import pathlib
import resource
import shutil
import zipfile

import numpy as np
import pytest
import safetensors.numpy
import yaml
from ctranslate2_files import model, variable
from external_toys import huggingface_toy, marian_toy
from sentencepiece import sentencepiece_model_pb2

from tf_transformer.importing._archive import MAX_RATIO, read_npz, unpack
from tf_transformer.importing._assembly import assemble
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._importer import import_model, read_model
from tf_transformer.importing._pieces import sentencepiece_files
from tf_transformer.importing._settings import first_lines, parse_yaml, read_json, show
from tf_transformer.importing.ctranslate2._binary_model import read_binary_model


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    makers = {"marian": marian_toy, "huggingface": huggingface_toy}
    return {name: maker(tmp_path_factory.mktemp("toys") / name).folder for name, maker in makers.items()}


@pytest.fixture
def copied(toys):
    """Copies a toy model, to be changed: `copied("marian", tmp_path)` is its folder."""
    return lambda name, path: pathlib.Path(shutil.copytree(toys[name], path / "external"))


def rejected(call, *arguments, name, match):
    with pytest.raises(ImportedModelError, match=match) as error:
        call(*arguments)
    assert name in str(error.value)
    assert len(str(error.value)) < 1500


def peak_growth(call) -> int:
    """Bytes by which the peak memory of this process grew in a call."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def test_aliases_are_dequantized_once_and_may_not_multiply_a_model(tmp_path):
    file = tmp_path / "model.bin"
    parts = [variable("a", np.ones((1024, 1024), np.int8)), variable("a_scale", np.ones(1024, np.float32))]
    file.write_bytes(model(*parts, aliases=[("b", "a"), ("c", "a")]))
    found = read_binary_model(file).variables
    assert found["a"] is found["b"] is found["c"]
    file.write_bytes(model(*parts, aliases=[(f"alias {i}", "a") for i in range(3000)]))
    growth = peak_growth(lambda: rejected(read_binary_model, file, name="model.bin", match="aliases that turn"))
    assert growth < 2**28


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi")
)
MERGES = "a: &a {x: 1}\n" + "\n".join(f"{b}: &{b} {{<<: [*{a}, *{a}]}}" for a, b in zip("abcdefgh", "bcdefghi"))
YAML = {
    "aliases": (BOMB + "\ntype: *i", "anchor or alias"),
    "merge keys": (MERGES, "anchor or alias"),
    "merge key without alias": ("<<: {type: transformer}", "merge key"),
    "tag": ("type: !!bool foo", "tag"),
    "python tag": ("type: !!python/object/apply:os.system [ls]", "tag"),
    "depth": ("a: " + "[" * 50_000, "nested deeper"),
    "digits": ("transformer-heads: " + "9" * 400, "400 digits"),
    "not finite": ("transformer-heads: 1e999", "not finite"),
    "surrogate": ('a: "\\ud800"', "surrogates"),
    "size": ("a: " + "x" * 300_000, "at most"),
    "bytes": ("a: \0b", "special characters"),
    "list": ("- a", "expected a YAML mapping"),
    "key": ("[a, b]: 1\n{a: b}: 2", "expected YAML"),
}


@pytest.mark.parametrize("kind", YAML)
@pytest.mark.parametrize("place", ["decoder.yml", "special:model.yml"])
def test_yaml_that_expands_or_constructs_is_rejected(kind, place, copied, tmp_path):
    text, match = YAML[kind]
    folder = copied("marian", tmp_path)
    if place == "decoder.yml":
        (folder / place).write_text(text)
    else:
        arrays = read_npz(folder / "model.npz") | {place: np.frombuffer(text.encode() or b" ", np.int8)}
        np.savez(folder / "model.npz", **arrays)
    rejected(read_model, folder, name=str(folder), match=match)


def test_plain_yaml_is_read_as_marian_writes_it():
    values = {
        "a": 1,
        "b": [1.5, "x", True, None, -3],
        "c": "",
        "d": [],
        "e": {"f": "2001-99-99", "g": "1:2:3"},
        "h": 1e-9,
    }
    assert parse_yaml(yaml.safe_dump(values).encode(), "x") == values
    assert parse_yaml(b"# nothing\n", "x") == {}
    assert parse_yaml(b"a: 1:2\nb: 0x10\nc: 1_000\nd: .5\ne: 1e3", "x") == {
        "a": "1:2",
        "b": "0x10",
        "c": "1_000",
        "d": 0.5,
        "e": 1000.0,
    }


@pytest.mark.parametrize("value", [5, "model.npz", [5], [""], {"a": 1}])
@pytest.mark.parametrize("option", ["models", "vocabs"])
def test_options_of_decoder_yml_that_are_not_file_names(option, value, copied, tmp_path):
    folder = copied("marian", tmp_path)
    (folder / "decoder.yml").write_text(yaml.safe_dump({option: value}))
    rejected(read_model, folder, name="decoder.yml", match="expected a list of file names")


def test_archives_of_zeros_are_rejected_before_they_are_read(tmp_path):
    file = tmp_path / "model.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("model.bin", "w") as member:
        for _ in range(200):
            member.write(bytes(2**20))
    assert file.stat().st_size < 2**20
    growth = peak_growth(lambda: rejected(unpack, file, tmp_path / "to", name="model.zip", match=f"{MAX_RATIO} times"))
    assert growth < 2**25
    assert not (tmp_path / "to").exists()
    rejected(read_npz, file, name="model.zip", match=f"{MAX_RATIO} times")


def test_members_that_other_methods_packed_or_that_repeat_are_rejected(tmp_path):
    file = tmp_path / "model.zip"
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        with zipfile.ZipFile(file, "w", method) as archive:
            archive.writestr("model.bin", "text")
        rejected(unpack, file, tmp_path / "to", name="model.zip", match="not compressed by deflate")
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", "text")
        archive.writestr("a/b", "text")
    rejected(unpack, file, tmp_path / "to", name="model.zip", match="Received: .*File exists")


def test_long_text_files_are_read_from_their_start_only(tmp_path):
    file = tmp_path / "README.md"
    with file.open("wb") as opened:
        opened.write(b"license: mit\n")
        opened.truncate(2**31)
    assert peak_growth(lambda: first_lines(file)) < 2**24
    assert first_lines(file)[0] == "license: mit"
    (tmp_path / "vocab.json").symlink_to(file)
    growth = peak_growth(lambda: rejected(read_json, tmp_path / "vocab.json", name="vocab.json", match="at most"))
    assert growth < 2**27


JSON = {
    "depth": ("[" * 50_000, "nested deeper"),
    "moderate depth": ("[" * 40 + "]" * 40, "nested deeper"),
    "digits": ('{"a": ' + "9" * 400 + "}", "400 digits"),
    "many digits": ('{"a": ' + "9" * 40_000 + "}", "40,000 digits"),
    "infinite": ('{"a": 1e400}', "not finite"),
    "constant": ('{"a": NaN}', "not finite"),
    "surrogate": (r'{"a": "\ud800"}', "surrogates"),
    "surrogate key": (r'{"\udfff": 1}', "surrogates"),
    "bytes": ('{"a": "\udcff"}', "decode"),
    "kind": ("[]", "expected dict. Received: list"),
}


@pytest.mark.parametrize("kind", JSON)
def test_json_beyond_the_limits_is_rejected(kind, tmp_path):
    text, match = JSON[kind]
    file = tmp_path / "config.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    rejected(read_json, file, name="config.json", match=match)


WRONG = [[], {}, "x", 1.5, -1, 10**30, True, [[]], {"a": []}]


@pytest.mark.parametrize(
    "field", ["activation_function", "d_model", "encoder_layers", "encoder_ffn_dim", "pad_token_id"]
)
def test_wrong_types_in_config_json_are_rejected_by_name(field, copied, tmp_path):
    folder = copied("huggingface", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    for value in WRONG:
        (folder / "config.json").write_text(json.dumps(config | {field: value}))
        rejected(read_model, folder, name="config.json", match=field.partition("_")[0])


@pytest.mark.parametrize("flag", ["scale_embedding", "tie_word_embeddings", "static_position_embeddings"])
def test_flags_must_be_booleans(flag, copied, tmp_path):
    folder = copied("huggingface", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {flag: "false"}))
    rejected(read_model, folder, name="config.json", match=f"expected true or false as {flag}")


def test_dimensions_are_compared_with_the_weights_before_a_model_is_built(copied, tmp_path):
    folder = copied("huggingface", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    huge = {"encoder_ffn_dim": 131_072, "decoder_ffn_dim": 131_072}
    (folder / "config.json").write_text(json.dumps(config | huge))
    rejected(import_model, folder, tmp_path / "run", name=str(folder), match="feed_forward/inner/kernel of shape")
    rejected(assemble, read_model(folder), name="", match="131072")


@pytest.mark.parametrize("dtype", ["int64", "bool", "int8", "uint16"])
def test_embeddings_that_are_not_floating_point_are_rejected(dtype, copied, tmp_path):
    folder = copied("huggingface", tmp_path)
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    weights["model.shared.weight"] = (100 * weights["model.shared.weight"]).astype(dtype)
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    rejected(read_model, folder, name="model.safetensors", match="'model.shared.weight' as F16, F32, F64")


def test_shapes_of_zero_by_huge_are_rejected(copied, tmp_path):
    file = tmp_path / "model.bin"
    file.write_bytes(model(variable("a", np.zeros((0, 2**31 - 1), np.float32))))
    rejected(read_binary_model, file, name="model.bin", match=r"shape \(0, 2147483647\)")
    file = tmp_path / "model.npz"
    np.savez(file, a=np.zeros((0, 2**40), np.float32))
    rejected(read_npz, file, name="model.npz", match="does not fit")
    folder = copied("huggingface", tmp_path)
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    weights["model.shared.weight"] = np.zeros((2**31, 0), np.float32)
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    rejected(read_model, folder, name=str(folder), match=r"model.shared.weight .*\(2147483648, 0\)")


def npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    "header",
    [
        b"(" * 5000,
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"(" * 3000 + b"), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }\n",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n",
        b"",
    ],
)
def test_npy_headers_are_not_evaluated(header, tmp_path):
    file = tmp_path / "model.npz"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("Wemb.npy", npy(header) + bytes(4))
    rejected(read_npz, file, name="model.npz", match="Wemb.npy")


@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 3, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8"])
def test_arrays_of_an_npz_are_those_that_numpy_wrote(shape, dtype, tmp_path):
    value = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "model.npz", a=value, b=np.asfortranarray(value))
        found = read_npz(tmp_path / "model.npz")
        for name in "ab":
            np.testing.assert_array_equal(found[name], value)
            assert found[name].dtype == value.dtype
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, value, version=(2, 0))
    with zipfile.ZipFile(tmp_path / "model.npz", "w") as archive:
        archive.writestr("a.npy", buffer.getvalue())
    np.testing.assert_array_equal(read_npz(tmp_path / "model.npz")["a"], value)


def test_an_empty_vocabulary_is_rejected(copied, tmp_path):
    folder = copied("huggingface", tmp_path)
    (folder / "vocab.json").write_text("{}")
    rejected(read_model, folder, name="vocab.json", match="expected each token with a row")


def test_half_characters_in_marians_vocabulary_are_rejected_with_their_line(copied, tmp_path):
    folder = copied("marian", tmp_path)
    file = folder / "vocab.yml"
    good = file.read_text()
    file.write_text(good + f'"\\ud800": {len(good.splitlines())}\n')
    rejected(read_model, folder, name="vocab.yml", match=f"line {len(good.splitlines()) + 1}")


def test_sentencepiece_models_without_normal_pieces_are_rejected(copied, tmp_path):
    folder = copied("marian", tmp_path)
    proto = sentencepiece_model_pb2.ModelProto.FromString((folder / "source.spm").read_bytes())
    del proto.pieces[4:]
    (folder / "source.spm").write_bytes(proto.SerializeToString())
    rejected(sentencepiece_files, folder, name="source.spm", match="no normal pieces")


def test_long_names_of_weights_do_not_make_long_messages(copied, tmp_path):
    folder = copied("marian", tmp_path)
    arrays = read_npz(folder / "model.npz")
    np.savez(folder / "model.npz", **arrays, **{"(" * 5000: np.ones((1, 1), np.float32)})
    rejected(read_model, folder, name="model.npz", match="Such a model cannot be")
    folder = copied("huggingface", tmp_path / "second")
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    safetensors.numpy.save_file(weights | {"(" * 5000: np.ones(1, np.float32)}, folder / "model.safetensors")
    rejected(read_model, folder, name=str(folder), match="Such a model cannot be")


def test_a_shown_value_is_short():
    nested = value = []
    for _ in range(500):
        value.append([])
        value = value[0]
    for value in (nested, "x" * 10**6, list(range(10**6)), {i: "y" * 1000 for i in range(10**5)}, 10**39):
        assert len(show(value)) <= 300
