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
from multilingual_toys import multilingual_toy
from sentencepiece import sentencepiece_model_pb2
from toy_workdir import toy_sentences

from tf_transformer.decoding import Translator
from tf_transformer.importing import ImportedModelError, import_model
from tf_transformer.importing._external_model import Vocabulary, vocabulary
from tf_transformer.importing._importer import read_model
from tf_transformer.importing._pieces import piece_names
from tf_transformer.importing._scripts import scripts_in, scripts_of
from tf_transformer.importing._trimming import Trimming, _Side, trim

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
    side = _Side(model, vocabulary(piece_names(model, "toy"), "toy"))
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
    side = _Side(model, vocabulary(piece_names(model, "toy"), "toy"))
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
    known = Vocabulary(tokens, *[getattr(external.source, name) for name in ("eos", "unk", "pad", "decoder_start")])
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
    for name in ("eos", "unk", "pad", "decoder_start"):
        before, after = getattr(known, name), getattr(small.source, name)
        assert small.source.tokens[after] == known.tokens[before]
    rows = [known.tokens.index(token) for token in small.source.tokens]
    np.testing.assert_array_equal(small.source_table, table[rows])
    np.testing.assert_array_equal(small.output_bias, bias[rows])


@pytest.mark.parametrize("name", ["ssru", pytest.param("pre-norm", marks=pytest.mark.slow)])
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


LANGUAGES = {"M2M-100": ("en", "de", "fr"), "NLLB-200": ("eng_Latn", "deu_Latn", "zho_Hans")}
LANGUAGES |= {"mBART-50": ("en_XX", "de_DE", "fr_XX")}


@pytest.mark.long
@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=pytest.mark.slow) for name in ("NLLB-200", "M2M-100", "mBART-50")]
)
def test_a_multilingual_model_translates_kept_text_as_before(family, tmp_path):
    """All languages stay, at other ids, and a row of a language without kept text is that of the model."""
    folder = multilingual_toy(tmp_path / "toy", family).folder
    source, *targets = LANGUAGES[family]
    options = {"beam_size": 1, "max_extra_length": 3, "failure_detection": False}
    whole = import_model(folder, tmp_path / "whole", languages=(source, targets[0]))
    translators = [Translator.from_workdir(whole.path, **options)]
    texts = toy_sentences(5, seed=4)
    expected = [translators[0](texts, target_language=code) for code in targets]
    (tmp_path / "kept.txt").write_text("\n".join(sum(expected, texts)) + "\n", encoding="utf-8")
    small = import_model(
        folder, tmp_path / "small", languages=(source, targets[0]), keep_pieces_of=[tmp_path / "kept.txt"]
    )
    translators.append(Translator.from_workdir(small.path, **options))
    before, after = (each.tokenizers.languages.tokens for each in (whole, small))
    assert list(before) == list(after) and before != after
    for code, token in after.items():
        assert small.tokenizers.target.pieces([token]) == whole.tokenizers.target.pieces([before[code]])
    assert [translators[1](texts, target_language=code) for code in targets] == expected
    # Other text falls back to smaller pieces.
    ids = [len(each.tokenizers.source.encode("the unkept zebra")) for each in (whole, small)]
    assert ids[0] <= ids[1] and small.config.model.vocab_size < whole.config.model.vocab_size


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
    assert scripts_of("deu_Latn") == scripts_of("de_DE") == scripts_of("de") == ("LATIN",)
    assert scripts_of("zho_Hant") == ("CJK", "BOPOMOFO")
    assert scripts_of("sr") == ("CYRILLIC", "LATIN")
    for unknown in ("xx", "", "deu-Xxxx", "../de"):
        with pytest.raises(ImportedModelError, match="Give text in that language with --keep-pieces-of"):
            scripts_of(unknown)


def test_a_missing_file_is_named(toy, tmp_path):
    with pytest.raises(ImportedModelError, match=r"--keep-pieces-of: expected text files\. Received: .*missing\.txt"):
        import_model(toy.folder, tmp_path / "run", keep_pieces_of=[tmp_path / "missing.txt"])
    assert not (tmp_path / "run").exists()
