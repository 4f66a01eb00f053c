"""Vocabulary trimming: fewer rows, the same segmentation of the kept text, the same translations of it."""

import dataclasses
import io
import json
import pathlib

import numpy as np
import pytest
import sentencepiece
from external_toys import huggingface_toy
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from tf_transformer.decoding import Translator
from tf_transformer.importing import ImportedModelError, import_model
from tf_transformer.importing._external_model import Vocabulary, vocabulary
from tf_transformer.importing._importer import read_model
from tf_transformer.importing._pieces import piece_names
from tf_transformer.importing._trimming import Trimming, _Side, scripts_in, scripts_of, trim

MARIAN_MODELS = pathlib.Path(__file__).parents[2] / "marian_models"
WORDS = ["night", "light", "sight", "might", "fight", "lighter", "brighter", "mighty", "nightly", "moon", "spoon"]
WORDS += ["ночь", "свет", "луна", "ложка", "светлый", "лунный"]


def piece_model(kind):
    stream = io.BytesIO()
    choose = np.random.default_rng(3)
    lines = [" ".join(choose.choice(WORDS, size=7)) for _ in range(300)]
    options = {"vocab_size": 90, "model_type": kind, "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=stream, **options)
    return stream.getvalue()


MODELS = {kind: piece_model(kind) for kind in ("unigram", "bpe")}


@pytest.mark.parametrize("kind", MODELS)
@given(kept=st.lists(st.lists(st.sampled_from([*WORDS, "ж", "x", "unknown☃"]), max_size=6), min_size=1, max_size=5))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_kept_text_is_split_as_before(kind, kept):
    model, lines = MODELS[kind], [" ".join(words) for words in kept]
    side = _Side(model, vocabulary(piece_names(model), "toy"))
    side.keep_text(iter([lines]))
    side.close()
    trimmed = side.trimmed()
    full, small = (sentencepiece.SentencePieceProcessor(model_proto=each) for each in (model, trimmed))
    assert small.encode(lines, out_type=str) == full.encode(lines, out_type=str)
    # Other text has smaller pieces, and no character is lost that was known.
    for word in WORDS:
        assert small.decode(small.encode(word)) == word


def test_a_bpe_model_keeps_what_leads_to_a_piece():
    model = MODELS["bpe"]
    side = _Side(model, vocabulary(piece_names(model), "toy"))
    side.keep(["▁lighter"] if "▁lighter" in side.names else [max(side.names, key=len)])
    longest = max(side.kept, key=len)
    side.close()
    assert {longest[:end] for end in range(1, len(longest))} & side.names <= side.kept


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return huggingface_toy(tmp_path_factory.mktemp("toy") / "opus-mt-en-de")


def test_special_and_added_tokens_stay(toy, tmp_path):
    external = read_model(toy.folder)
    tokens = (*external.source.tokens, ">>deu<<", "__de__", "<row 999>")
    known = Vocabulary(tokens, *[getattr(external.source, name) for name in ("end", "unknown", "pad", "start")])
    table = np.concatenate([external.source_table, np.ones((3, external.source_table.shape[1]), np.float32)])
    bias = np.concatenate([external.output_bias, np.zeros(3, np.float32)])
    external = dataclasses.replace(
        external,
        source=known,
        target=known,
        source_table=table,
        target_table=table,
        output_table=table,
        output_bias=bias,
    )
    (tmp_path / "kept.txt").write_text("the house\n")
    small = trim(external, Trimming(files=(tmp_path / "kept.txt",)))
    assert small.source is small.target and small.source_table is small.output_table
    assert {">>deu<<", "__de__", "</s>", "<pad>"} <= set(small.source.tokens)
    assert "<row 999>" not in small.source.tokens
    for name in ("end", "unknown", "pad", "start"):
        before, after = getattr(known, name), getattr(small.source, name)
        assert small.source.tokens[after] == known.tokens[before]
    rows = [known.tokens.index(token) for token in small.source.tokens]
    np.testing.assert_array_equal(small.source_table, table[rows])
    np.testing.assert_array_equal(small.output_bias, bias[rows])


@pytest.mark.parametrize("name", ["ssru", "pre-norm"])
def test_translations_of_kept_text_do_not_change(tmp_path, name):
    sources = json.loads((MARIAN_MODELS / name / "reference.json").read_text())["source"][:3]
    whole = import_model(MARIAN_MODELS / name, tmp_path / "whole", licence="none")
    translations = Translator.from_workdir(whole.path, beam_size=1, failure_detection=False)(sources)
    (tmp_path / "kept.txt").write_text("\n".join(sources + translations) + "\n")
    small = import_model(
        MARIAN_MODELS / name, tmp_path / "small", licence="none", keep_pieces_of=[tmp_path / "kept.txt"]
    )
    before, after = json.loads((small.path / "import.json").read_text())["trimmed"]["target"]
    assert after < before
    assert Translator.from_workdir(small.path, beam_size=1, failure_detection=False)(sources) == translations


def test_a_language_keeps_its_script(toy):
    external = read_model(toy.folder)
    assert trim(external, Trimming(("de", "en"))).source.tokens == external.source.tokens
    small = trim(external, Trimming(("ru",)))
    normal = {piece.piece for piece in sentencepiece_model_pb2.ModelProto.FromString(small.source_pieces).pieces}
    assert "▁house" not in normal
    assert "h" in normal


def test_scripts():
    assert scripts_in("▁Straße") == {"LATIN"}
    assert scripts_in("日本ーの") == {"CJK", "HIRAGANA"}
    assert scripts_in("▁12,5 % …") == set()
    assert scripts_of("deu_Latn") == scripts_of("de_DE") == scripts_of("de") == ("Latn",)
    assert scripts_of("zho_Hant") == ("Hant",)
    for unknown in ("xx", "", "deu-Xxxx", "../de"):
        with pytest.raises(ImportedModelError, match="Give text in that language with --keep-pieces-of"):
            scripts_of(unknown)


def test_a_missing_file_is_named(toy, tmp_path):
    with pytest.raises(ImportedModelError, match=r"--keep-pieces-of: .*missing\.txt cannot be read"):
        import_model(toy.folder, tmp_path / "run", keep_pieces_of=[tmp_path / "missing.txt"])
    assert not (tmp_path / "run").exists()
