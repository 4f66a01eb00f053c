import io
import json
import pickle
import shutil
import stat
import types
import zipfile

import h5py
import numpy as np
import pytest
from external_toys import huggingface_toy, marian_toy
from toy_workdir import toy_workdir

from tf_transformer.export._ctranslate2 import export_ctranslate2
from tf_transformer.importing import _archive as archive
from tf_transformer.importing import _assembly as assembly
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._importer import import_model
from tf_transformer.importing._pieces import sentencepiece_files
from tf_transformer.importing.marian import _model as marian_model
from tf_transformer.text._model_file import read_model_file
from tf_transformer.workdir.checkpoints import load_model_tensors

pytestmark = pytest.mark.long


def rejected(path, tmp_path, message, **arguments):
    """The message names the model, and nothing may be left in `tmp_path` but what was there."""
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ImportedModelError, match=message) as error:
        import_model(path, tmp_path / "run", **arguments)
    assert str(tmp_path) in str(error.value)
    assert sorted(tmp_path.iterdir()) == before


class Trap:
    """Pickled, it writes a file when it is opened."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return (open, (str(self._path), "w"))


MARIAN = {
    "rnn decoder": (
        {"transformer_decoder_autoreg": "rnn"},
        "expected 'ssru' as Marian's option dec-cell. Received: None",
    ),
    "average attention": (
        {"transformer_decoder_autoreg": "average-attention"},
        "autoreg. Received: 'average-attention'",
    ),
    "s2s": ({"type": "s2s"}, "type. Received: 's2s'"),
    "half a pre-norm": ({"transformer_preprocess": "n"}, "Received: 'n', 'dan' and ''"),
    "tied layers": ({"transformer_tied_layers": [1, 1]}, "transformer-tied-layers"),
    "depth": ({"enc_depth": 3}, "encoder_l3_self_Wq"),
    "unread": ({"dec_depth": 2}, "Received: decoder_l3"),
    "number": ({"transformer_heads": "eight"}, "transformer-heads. Received: 'eight'"),
    "heads": ({"transformer_heads": 0}, "heads|num_heads"),
}


@pytest.mark.parametrize("kind", MARIAN)
def test_marian_models_with_other_parts_are_rejected_by_name(kind, tmp_path):
    options, message = MARIAN[kind]
    rejected(marian_toy(tmp_path / "external", **options).folder, tmp_path, message)


def test_pickles_in_an_npz_are_not_opened(tmp_path):
    toy = marian_toy(tmp_path / "external")
    np.savez(toy.folder / "model.npz", Wemb=np.array([Trap(tmp_path / "trapped")], object))
    rejected(toy.folder, tmp_path, r"model.npz.*'Wemb.npy' of type \|O")
    assert not (tmp_path / "trapped").exists()


def test_a_truncated_npz_is_rejected(tmp_path):
    toy = marian_toy(tmp_path / "external")
    data = (toy.folder / "model.npz").read_bytes()
    for share in (0, 0.4, 0.999):
        (toy.folder / "model.npz").write_bytes(data[: int(share * len(data))])
        rejected(toy.folder, tmp_path, "model.npz: expected an archive")


def test_an_npz_that_claims_more_than_it_holds_is_rejected(tmp_path, monkeypatch):
    toy = marian_toy(tmp_path / "external")
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (2**30, 2**20)})
    with zipfile.ZipFile(toy.folder / "model.npz", "w") as opened:
        opened.writestr("Wemb.npy", header.getvalue())
    rejected(toy.folder, tmp_path, "model.npz: expected an archive")
    np.savez_compressed(toy.folder / "model.npz", Wemb=np.zeros(2**20, np.float32))
    monkeypatch.setattr(archive, "MAX_BYTES", 2**20)
    rejected(toy.folder, tmp_path, "more than any model has")


def test_bad_h5_files_are_rejected(tmp_path):
    toy = huggingface_toy(tmp_path / "external")
    (toy.folder / "model.safetensors").unlink()
    file = toy.folder / "tf_model.h5"
    file.write_bytes(b"no HDF5 at all")
    rejected(toy.folder, tmp_path, "tf_model.h5: expected weights")
    with h5py.File(file, "w") as opened:
        opened.create_dataset("model/huge:0", (2**30, 2**20), "f4", chunks=(16, 16))
    rejected(toy.folder, tmp_path, "huge:0' of .* bytes. Received: another size")
    (tmp_path / "secret").write_bytes(bytes(64))
    with h5py.File(file, "w") as opened:
        opened.create_dataset("model/taken:0", (16,), "f4", external=[(str(tmp_path / "secret"), 0, 64)])
    rejected(toy.folder, tmp_path, "taken:0', which lies in another file")
    with h5py.File(file, "w") as opened:
        opened["final_logits_bias:0"] = np.zeros((1, 9), np.float32)
    rejected(toy.folder, tmp_path, "expected model.encoder.layers.0.self_attn.q_proj.weight")
    file.write_bytes(file.read_bytes()[:-500])
    rejected(toy.folder, tmp_path, "tf_model.h5: expected weights")


def test_archives_larger_than_any_model_are_rejected(tmp_path, monkeypatch):
    package = argos(tmp_path)
    monkeypatch.setattr(archive, "MAX_BYTES", 1000)
    rejected(package, tmp_path, "more than any model has")


def test_a_torch_pickle_is_not_opened(tmp_path):
    toy = huggingface_toy(tmp_path / "external")
    (toy.folder / "model.safetensors").unlink()
    (toy.folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(tmp_path / "trapped")))
    rejected(toy.folder, tmp_path, "pytorch_model.bin")
    assert not (tmp_path / "trapped").exists()


HUGGING_FACE = {
    "model_type": ("t5", "expected one of 'marian', 'm2m_100', 'mbart' as model_type. Received: 't5'"),
    "activation_function": ("gelu_new", "Received: 'gelu_new'"),
    "normalize_before": (True, "expected False as normalize_before"),
    "decoder_ffn_dim": (41, "expected 37 as decoder_ffn_dim. Received: 41"),
    "encoder_layers": (10**9, "expected a whole number from 1 to 200 as encoder_layers"),
    "encoder_attention_heads": (7, "expected 7 as decoder_attention_heads"),
    "pad_token_id": (10**6, "expected a row of it as config.json's pad_token_id"),
    "d_model": (28, "model|shape"),
}


@pytest.mark.parametrize("field", HUGGING_FACE)
def test_hugging_face_configurations_that_we_cannot_build_are_rejected(field, tmp_path):
    value, message = HUGGING_FACE[field]
    toy = huggingface_toy(tmp_path / "external")
    config = json.loads((toy.folder / "config.json").read_text())
    (toy.folder / "config.json").write_text(json.dumps(config | {field: value}))
    rejected(toy.folder, tmp_path, message)


def test_damaged_folders_are_rejected(tmp_path):
    toy = huggingface_toy(tmp_path / "external")
    weights = (toy.folder / "model.safetensors").read_bytes()
    (toy.folder / "model.safetensors").write_bytes(weights[:-7])
    rejected(toy.folder, tmp_path, "model.safetensors: expected weights")
    (toy.folder / "model.safetensors").write_bytes(weights)
    spm = (toy.folder / "target.spm").read_bytes()
    (toy.folder / "target.spm").write_bytes(spm[: len(spm) // 2])
    rejected(toy.folder, tmp_path, "target.spm")
    (toy.folder / "target.spm").write_bytes(spm)
    (toy.folder / "vocab.json").write_text('{"</s>": 0, "<unk>": 0}')
    rejected(toy.folder, tmp_path, "vocab.json: expected each token with a row of its own")
    (toy.folder / "vocab.json").write_text("[" * 100000)
    rejected(toy.folder, tmp_path, "vocab.json: expected JSON. Received: .*nested")


def test_an_argos_package_is_imported_and_its_licence_kept(tmp_path):
    package = argos(tmp_path)
    workdir = import_model(package, tmp_path / "run")
    assert workdir.dataset_info["source_language"] == "en"
    assert workdir.dataset_info["target_language"] == "de"
    facts = json.loads((workdir.path / "import.json").read_text())
    assert facts.pop("parameters") == sum(value.size for value in load_model_tensors(workdir.checkpoint()).values())
    assert "model.bin" in {file["name"] for file in facts.pop("files")}
    expected = {"format": "CTranslate2", "from": "toy.argosmodel", "licence": "It is licensed CC-BY 4.0"}
    assert facts == expected | {"languages": ["en", "de"]}


@pytest.mark.parametrize("name", ["../outside.txt", "/tmp/outside.txt", "toy/../../outside.txt", "toy\\..\\x.txt"])
def test_archives_do_not_write_outside(name, tmp_path):
    package = argos(tmp_path)
    with zipfile.ZipFile(package, "a") as archive:
        archive.writestr(name, "here I am")
    rejected(package, tmp_path, "leads outside")


def test_links_and_broken_archives_are_rejected(tmp_path):
    package = argos(tmp_path)
    link = zipfile.ZipInfo("toy/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(package, "a") as archive:
        archive.writestr(link, "/etc")
    rejected(package, tmp_path, "leads outside")
    package.write_bytes(package.read_bytes()[:1000])
    rejected(package, tmp_path, "expected a zip archive")


def test_what_is_no_model_is_rejected(tmp_path):
    (tmp_path / "folder").mkdir()
    rejected(tmp_path / "folder", tmp_path, "expected a model of Marian .*Received: a folder with nothing")
    (tmp_path / "checkpoint_best.pt").write_bytes(pickle.dumps(Trap(tmp_path / "trapped")))
    rejected(tmp_path / "checkpoint_best.pt", tmp_path, "fairseq's checkpoints cannot be imported")
    assert not (tmp_path / "trapped").exists()
    rejected(tmp_path / "nowhere", tmp_path, "nowhere, which does not exist")


def test_a_work_directory_that_is_there_is_kept(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("mine")
    rejected(argos(tmp_path), tmp_path, "which is not empty")


def test_other_tokenizers_are_rejected(tmp_path):
    exported = export_ctranslate2(toy_workdir(tmp_path / "toy"), tmp_path / "exported")
    (exported / "tokenizer.model").rename(exported / "bpe.model")
    rejected(exported, tmp_path, "BPE codes of subword-nmt")
    (exported / "bpe.model").rename(exported / "other")
    rejected(exported, tmp_path, "--source-tokenizer")
    import_model(exported, tmp_path / "run", source_tokenizer=exported / "other")


def test_each_tokenizer_can_be_given_for_itself(tmp_path):
    exported = export_ctranslate2(toy_workdir(tmp_path / "toy"), tmp_path / "exported")
    model = read_model_file(exported / "tokenizer.model")
    with pytest.raises(ValueError, match="which is not a file"):
        sentencepiece_files(exported, target=exported / "nothing")
    assert sentencepiece_files(exported) == (model, None)
    assert sentencepiece_files(exported, target=exported / "tokenizer.model") == (model, model)
    (exported / "tokenizer.model").rename(exported / "target.spm")
    shutil.copy(exported / "target.spm", exported / "source.spm")
    assert sentencepiece_files(exported, source=exported / "source.spm") == (model, model)


def test_two_vocabularies_of_marian_must_be_named(tmp_path):
    for name in ("en.vocab.yml", "de.vocab.yml"):
        (tmp_path / name).write_text("</s>: 0")
    with pytest.raises(ImportedModelError, match=r"with the two under `vocabs`. Received: de.vocab.yml, en"):
        marian_model._DecoderFile.of(tmp_path).vocabularies()
    (tmp_path / "decoder.yml").write_text("vocabs: [en.vocab.yml, de.vocab.yml]")
    files = marian_model._DecoderFile.of(tmp_path).vocabularies()
    assert [file.name for file in files] == ["en.vocab.yml", "de.vocab.yml"]


@pytest.mark.parametrize("field", ["output_table", "output_bias"])
def test_an_output_layer_of_another_size_is_rejected(field):
    table = np.zeros((7, 4), np.float32)
    parts = {"target_table": table, "output_table": table, "output_bias": np.zeros(7, np.float32)}
    external = types.SimpleNamespace(**parts | {field: parts[field][:-1]})
    with pytest.raises(ImportedModelError, match=r"output layer of the shape of the target's embedding, \(7, 4\)"):
        assembly._check_output(external)


def argos(tmp_path):
    exported = export_ctranslate2(toy_workdir(tmp_path / "toy"), tmp_path / "exported")
    package = tmp_path / "toy.argosmodel"
    with zipfile.ZipFile(package, "w") as archive:
        for file in exported.iterdir():
            inside = "sentencepiece.model" if file.name == "tokenizer.model" else f"model/{file.name}"
            archive.write(file, f"translate-en_de/{inside}")
        archive.writestr("translate-en_de/metadata.json", '{"from_code": "en", "to_code": "de"}')
        archive.writestr("translate-en_de/README.md", "# Toy\n\nIt is licensed CC-BY 4.0\n")
    return package
