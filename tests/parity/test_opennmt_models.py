"""Models as OpenNMT-py trains them and most Argos packages hold them: the encoder reads no end token."""

import json

import numpy as np
import pytest
from ctranslate2_agreement import compare_with
from toy_workdir import randomize, toy_sentences, toy_tokenizers

from tf_transformer.config import ModelConfig
from tf_transformer.decoding._translator import Translator
from tf_transformer.export._ctranslate2 import export_ctranslate2
from tf_transformer.export._ctranslate2_spec import transformer_spec_of
from tf_transformer.importing._importer import import_model
from tf_transformer.model import Transformer
from tf_transformer.workdir._weights import model_tensors
from tf_transformer.workdir.checkpoints import load_model_tensors

# OpenNMT-py's order: unknown, padding, start, end.
ROWS = [1, 0, 2, 3]
COUNT = 101


@pytest.fixture(scope="module")
def opennmt(tmp_path_factory):
    """CTranslate2's folder of a pre-norm model with random weights, and the SentencePiece model in it."""
    folder = tmp_path_factory.mktemp("opennmt") / "model"
    folder.mkdir()
    tokenizer = toy_tokenizers().source
    rows = [*ROWS, *range(4, tokenizer.vocab_size)]
    config = ModelConfig(
        num_layers=2, model_dim=26, feed_forward_dim=37, num_heads=2, key_dim=13, value_dim=13, norm="pre",
        vocab_size=len(rows), scale_embeddings=False, output_bias=True, tied_embeddings="none",
    )  # fmt: skip
    model = Transformer(config)
    randomize(model, scale=3.0)
    tensors = model_tensors(model)
    tensors["output_bias"][3] += 5.0  # so that sentences end
    spec = transformer_spec_of(config, tensors, 300)
    tokens = tokenizer.pieces(rows)
    tokens[1] = "<blank>"
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    (folder / "sentencepiece.model").write_bytes(tokenizer.model)
    return folder


@pytest.fixture(scope="module")
def workdir(opennmt, tmp_path_factory):
    return import_model(opennmt, tmp_path_factory.mktemp("imported") / "run")


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_and_scores_agree(opennmt, workdir, beam_size):
    agreement = compare_with(opennmt, workdir, toy_sentences(COUNT, seed=11), beam_size)

    assert agreement.distinct > 10
    assert agreement.differences == []
    assert agreement.score_distance < 1e-3


def test_the_source_has_no_end_and_the_target_has(workdir):
    assert json.loads((workdir.path / "source.ids.json").read_text())["add_eos"] is False
    assert workdir.tokenizers.source.encode("the dog") == workdir.tokenizers.target.encode("the dog")[:-1]


def test_nothing_gives_nothing(workdir):
    translator = Translator.from_workdir(workdir.path)
    assert translator(["", "  "]) == ["", ""]
    alone, beside = translator(["a red dog."]), translator(["", "a red dog.", "   "])
    assert beside == ["", *alone, ""]
    [found] = translator.nbest([""])
    assert found.texts[0] == "" and found.log_probs[0] == 0.0
    assert np.isfinite([pair.log_prob for pair in translator.score(["", "", "dog."], ["", "dog.", ""])]).all()


def test_long_sources_are_truncated_without_eos(workdir):
    translator = Translator.from_workdir(workdir.path, max_source_length=7)
    text = " ".join(["dog"] * 40)
    ids = np.asarray(translator._read(np.array([text])).ids)
    assert ids.tolist() == [workdir.tokenizers.source.encode(text)[:7]]
    assert translator.nbest([text])[0].truncated


def test_the_way_back_keeps_it(workdir, tmp_path):
    exported = export_ctranslate2(workdir, tmp_path / "exported")
    assert json.loads((exported / "config.json").read_text())["add_source_eos"] is False
    again = import_model(exported, tmp_path / "again")
    assert again.tokenizers.sha256 == workdir.tokenizers.sha256
    before, after = (load_model_tensors(each.checkpoint()) for each in (workdir, again))
    assert sorted(before) == sorted(after)
    assert all(np.array_equal(after[name], value) for name, value in before.items())
