"""Folders of M2M-100, NLLB-200 and mBART-50: weights, vocabularies with gaps, languages; and what is rejected."""

import json

import numpy as np
import pytest
import safetensors.numpy
from multilingual_toys import DIM, LANGUAGES, change_json, multilingual_toy, write_json

from tf_transformer.decoding import Translator
from tf_transformer.importing import ImportedModelError, import_model
from tf_transformer.importing._weight_files import read_weights
from tf_transformer.text import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from tf_transformer.workdir.checkpoints import load_model_tensors

pytestmark = pytest.mark.long
PAIRS = {"M2M-100": ("en", "de"), "NLLB-200": ("eng_Latn", "deu_Latn"), "mBART-50": ("en_XX", "de_DE")}


@pytest.fixture(scope="module", params=PAIRS)
def imported(request, tmp_path_factory):
    """The family, its toy, and the work directory."""
    folder = tmp_path_factory.mktemp("family")
    toy = multilingual_toy(folder / "toy", request.param)
    return request.param, toy, import_model(toy.folder, folder / "run", languages=PAIRS[request.param])


def test_the_architecture_is_the_familys(imported):
    family, _, workdir = imported
    model = workdir.config.model
    assert (model.norm, model.norm_epsilon, model.scale_embeddings, model.tied_embeddings) == ("pre", 1e-5, True, "all")
    if family == "mBART-50":
        assert (model.positions, model.max_positions, model.embedding_norm) == ("learned", 64, True)
        assert (model.activation, model.position_offset) == ("gelu", 0)
    else:
        assert (model.positions, model.position_offset, model.embedding_norm) == ("t2t", 2, False)
    assert (workdir.config.decoding.beam_size, workdir.config.decoding.length_penalty) == (5, "average")


def test_the_weights_are_at_our_names_and_rows(imported):
    family, toy, workdir = imported
    tensors = load_model_tensors(workdir.checkpoint())
    table, theirs = tensors["source_embedding/table"], toy.weights["model.shared.weight"]
    for i, row in (
        (PAD_ID, 1),
        (UNK_ID, 3),
        (BOS_ID, 2),
        (EOS_ID, 2),
        (4, 0),
        (5, 4),
        (len(table) - 1, len(theirs) - 1),
    ):
        np.testing.assert_array_equal(table[i], theirs[row])
    kernel = toy.weights["model.decoder.layers.1.encoder_attn.k_proj.weight"]
    np.testing.assert_array_equal(tensors["decoder/layer_1/cross_attention/key/kernel"], kernel.T)
    np.testing.assert_array_equal(tensors["encoder/final_norm/gamma"], toy.weights["model.encoder.layer_norm.weight"])
    if family == "mBART-50":
        positions = toy.weights["model.decoder.embed_positions.weight"]
        np.testing.assert_array_equal(tensors["target_positions/table"], positions[2:])
        norm = toy.weights["model.encoder.layernorm_embedding.bias"]
        np.testing.assert_array_equal(tensors["source_norm/beta"], norm)


def test_languages_have_the_ids_of_their_rows(imported):
    family, toy, workdir = imported
    tokens = workdir.tokenizers.languages.tokens
    assert len(tokens) == len(LANGUAGES[family])
    table = load_model_tensors(workdir.checkpoint())["source_embedding/table"]
    for place, code in enumerate(tokens):
        row = toy.weights["model.shared.weight"][toy.first_language + place]
        np.testing.assert_array_equal(table[tokens[code]], row)
        assert workdir.tokenizers.target.pieces([tokens[code]]) == [LANGUAGES[family][place]]
        assert workdir.tokenizers.target.decode([tokens[code], EOS_ID]) == ""


def test_a_source_begins_with_its_language_and_a_target_with_its_own(imported):
    family, _, workdir = imported
    translator = Translator.from_workdir(workdir.path, max_source_length=20)
    source, target = PAIRS[family]
    tokens = workdir.tokenizers.languages.tokens
    found = translator._read(np.array(["the dog", ""], object))
    first, second = found.ids.numpy()[:, 0]
    assert first == second == tokens[source]
    assert found.ids.numpy()[0, found.lengths.numpy()[0] - 1] == EOS_ID
    assert found.empty.numpy().tolist() == [False, True]
    begin = translator._read_prefix(None, found)
    assert begin.ids.numpy().tolist() == [[tokens[target]]] * 2


def test_control_symbols_in_a_text_are_text(imported):
    family, _, workdir = imported
    ids = workdir.tokenizers.source.encode(f"the {LANGUAGES[family][0]} </s> dog")
    assert not set(ids[:-1]) & {EOS_ID, *workdir.tokenizers.languages.tokens.values()}


def test_legacy_nllb_has_its_language_behind_the_end(tmp_path):
    toy = multilingual_toy(tmp_path / "toy")
    change_json(toy.folder / "tokenizer_config.json", legacy_behaviour=True)
    workdir = import_model(toy.folder, tmp_path / "run", languages=("eng_Latn", "deu_Latn"))
    found = Translator.from_workdir(workdir.path)._read(np.array(["the dog", "a dog is in the house"], object))
    token = workdir.tokenizers.languages.tokens["eng_Latn"]
    for row, length in zip(found.ids.numpy(), found.lengths.numpy()):
        assert row[length - 2 : length].tolist() == [EOS_ID, token]
        assert not row[length:].any()


@pytest.mark.parametrize("kind", ["added_tokens.json", "tokenizer.json", "special_tokens_map.json"])
def test_the_rows_of_languages_may_be_in_other_files(kind, tmp_path):
    toy = multilingual_toy(tmp_path / "toy")
    config = json.loads((toy.folder / "tokenizer_config.json").read_text())
    rows = {token["content"]: int(row) for row, token in config["added_tokens_decoder"].items()}
    change_json(toy.folder / "tokenizer_config.json", added_tokens_decoder=None)
    contents = {"added_tokens.json": rows | {"<mask>": 3}}
    contents["tokenizer.json"] = {"added_tokens": [{"id": row, "content": token} for token, row in rows.items()]}
    contents["special_tokens_map.json"] = {"additional_special_tokens": [*rows, "<other>"]}
    write_json(toy.folder / kind, contents[kind])
    workdir = import_model(toy.folder, tmp_path / "run")
    assert list(workdir.tokenizers.languages.tokens) == list(rows)
    assert workdir.tokenizers.languages.tokens["deu_Latn"] == toy.first_language + 1  # one more than the row: BOS


def test_weights_may_be_in_several_files(tmp_path):
    toy = multilingual_toy(tmp_path / "toy")
    (toy.folder / "model.safetensors").unlink()
    names = sorted(toy.weights)
    parts = {"model-00001-of-00002.safetensors": names[:9], "model-00002-of-00002.safetensors": names[9:]}
    for file, held in parts.items():
        safetensors.numpy.save_file({name: toy.weights[name] for name in held}, toy.folder / file)
    places = {name: file for file, held in parts.items() for name in held}
    write_json(toy.folder / "model.safetensors.index.json", {"weight_map": places})
    found = read_weights(toy.folder)
    assert {name: found[name].tolist() for name in found} == {n: v.tolist() for n, v in toy.weights.items()}
    for wrong in ({"a": "../model.safetensors"}, {names[0]: "model-00001-of-00002.safetensors"}, {}):
        write_json(toy.folder / "model.safetensors.index.json", {"weight_map": wrong})
        with pytest.raises(ImportedModelError, match=r"model\.safetensors\.index\.json: "):
            read_weights(toy.folder)


REJECTED = {
    "another tokenizer": ("tokenizer_config.json", {"tokenizer_class": "MBartTokenizer"}, "as tokenizer_class"),
    "another start": (
        "config.json",
        {"decoder_start_token_id": 0},
        "config.json: expected eos_token_id, 2, as decoder_start_token_id",
    ),
    "no end": ("config.json", {"eos_token_id": None}, "as eos_token_id"),
    "post-norm": ("config.json", {"normalize_before": False}, "expected True as normalize_before"),
    "another size": ("config.json", {"vocab_size": 400}, "expected 400 embeddings"),
    "a small vocabulary": ("config.json", {"vocab_size": 20}, "Get tokenizer and weights of the same model"),
    "no languages": (
        "tokenizer_config.json",
        {"added_tokens_decoder": None},
        "expected a file with the languages of NLLB-200",
    ),
    "another family": (
        "config.json",
        {"model_type": "nllb-moe"},
        "expected one of 'marian', 'm2m_100', 'mbart' as model_type",
    ),
    "other widths": ("config.json", {"d_model": DIM * 2}, "Received: shape"),
    "other heads": ("config.json", {"decoder_attention_heads": 1}, "expected 5 as decoder_attention_heads"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_what_does_not_fit_is_rejected_before_anything_is_written(case, tmp_path):
    file, changes, message = REJECTED[case]
    toy = multilingual_toy(tmp_path / "toy")
    change_json(toy.folder / file, **changes)
    with pytest.raises(ImportedModelError, match=message):
        import_model(toy.folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unknown_languages_are_rejected_with_similar_ones(tmp_path):
    toy = multilingual_toy(tmp_path / "toy")
    with pytest.raises(ImportedModelError, match=r"Received: 'deu'\. Did you mean deu_Latn"):
        import_model(toy.folder, tmp_path / "run", languages=(None, "deu"))
    assert not (tmp_path / "run").exists()


def test_a_trimmed_vocabulary_keeps_the_languages(tmp_path):
    toy = multilingual_toy(tmp_path / "toy")
    (tmp_path / "kept.txt").write_text("the dog\nthe cat\n", encoding="utf-8")
    workdir = import_model(toy.folder, tmp_path / "run", keep_pieces_of=[tmp_path / "kept.txt"])
    tokens = workdir.tokenizers.languages.tokens
    table = load_model_tensors(workdir.checkpoint())["source_embedding/table"]
    assert len(table) < len(toy.weights["model.shared.weight"])
    for place, code in enumerate(tokens):
        row = toy.weights["model.shared.weight"][toy.first_language + place]
        np.testing.assert_array_equal(table[tokens[code]], row)


def test_pieces_that_are_not_text_are_rejected(tmp_path):
    toy = multilingual_toy(tmp_path / "toy")
    file = toy.folder / "sentencepiece.bpe.model"
    file.write_bytes(file.read_bytes().replace("▁".encode(), b"\xff\xfe\xfd"))
    with pytest.raises(ImportedModelError, match=r"toy: expected a SentencePiece model of UTF-8 text"):
        import_model(toy.folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()
