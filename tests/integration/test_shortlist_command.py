"""`tf-transformer shortlist`: built from prepared data or from Marian's file, and used by `translate` and `export`."""

import gzip
import json

import numpy as np
import pytest
from exported_toy import SEARCH, SMALL
from marian_files import shortlist as marian_shortlist
from toy_data import toy_data
from toy_workdir import randomize, toy_sentences

from tf_transformer.config import Config, DecodingConfig
from tf_transformer.data import PreparedDataset
from tf_transformer.decoding import ExportedModel, Shortlist, Translator
from tf_transformer.evaluation import ShortlistEffect
from tf_transformer.export.inspection._inspect import inspect_saved_model
from tf_transformer.model import Transformer
from tf_transformer.pipelines.cli import main
from tf_transformer.training import with_vocabulary
from tf_transformer.workdir import Workdir, model_tensors
from tf_transformer.workdir.checkpoints import save_checkpoint


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A prepared directory and a work directory of random weights with its tokenizer."""
    folder = tmp_path_factory.mktemp("shortlist")
    prepared = PreparedDataset(toy_data(folder))
    config = with_vocabulary(
        Config("toy", SMALL, decoding=DecodingConfig(**SEARCH, failure_detection=False)), prepared.tokenizers
    )
    info = prepared.info | {"directory": str(prepared.path)}
    workdir = Workdir.create(folder / "run", config, prepared.tokenizers, info)
    model = Transformer(config.model)
    randomize(model)
    save_checkpoint(workdir.checkpoints / "step-00000003", model_tensors(model), step=3)
    return prepared, workdir


def test_a_table_is_built_and_measured(run, tmp_path, capsys):
    prepared, workdir = run
    output = tmp_path / "table.npz"
    command = ["shortlist", "--data", str(prepared.path), "--workdir", str(workdir.path), "--output", str(output)]
    assert main([*command, "--best", "7", "--frequent", "11", "--beam-size", "2", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["per_source_id"], figures["frequent"], figures["sentences"]) == (8, 12, 7)
    assert 12 < figures["candidates_mean"] < figures["vocab_size"] == prepared.tokenizers.target.vocab_size
    assert figures["coverage"] > 0.99  # sentences are copied, and each token is its own candidate
    assert figures["speed"] > 0 and "tok:13a" in figures["signature"]
    loaded = Shortlist.load(output)
    source = tmp_path / "text.txt"
    source.write_text("\n".join(toy_sentences(5)) + "\n")
    translate = ["translate", "--workdir", str(workdir.path), "--input", str(source), "--no-segmentation"]
    assert main([*translate, "--shortlist", str(output)]) == 0
    expected = Translator.from_workdir(workdir.path, shortlist=loaded, segmentation=False)(toy_sentences(5))
    assert capsys.readouterr().out.splitlines() == expected


def test_data_of_another_tokenizer_is_rejected_before_the_table_is_built(run, tmp_path, capsys):
    _, workdir = run
    output = tmp_path / "table.npz"
    command = ["shortlist", "--data", str(toy_data(tmp_path, 170)), "--workdir", str(workdir.path)]
    capsys.readouterr()
    assert main([*command, "--output", str(output)]) == 1
    assert "Expected data prepared with the tokenizers of" in capsys.readouterr().err
    assert not output.exists()


def test_a_table_of_marian_is_converted(run, tmp_path, capsys):
    _, workdir = run
    size = workdir.tokenizers.source.vocab_size
    lex, output = tmp_path / "lex.s2t.bin", tmp_path / "table.npz"
    lex.write_bytes(marian_shortlist([[], [5, 9], [3], *([] for _ in range(size - 3))], frequent=7))
    command = ["shortlist", "--marian", str(lex), "--output", str(output)]
    assert main(command) == 1
    assert "Expected --workdir DIR, the imported model, with --marian" in capsys.readouterr().err
    assert main([*command, "--workdir", str(workdir.path)]) == 0
    found = Shortlist.load(output)
    assert sorted(set(found.frequent)) == list(range(7))
    assert set(found.table[1]) == {5, 9, 1} and set(found.table[2]) == {3, 2}
    lex.write_bytes(marian_shortlist([[size]], frequent=1))
    assert main([*command, "--workdir", str(workdir.path)]) == 1
    assert "Expected a shortlist of the model's vocabularies" in capsys.readouterr().err


def test_a_text_table_of_marian_is_converted(run, tmp_path, capsys):
    _, workdir = run
    tokenizer = workdir.tokenizers.source
    words = tokenizer.pieces(range(tokenizer.vocab_size))
    lex, output = tmp_path / "lex.s2t.gz", tmp_path / "table.npz"
    pairs = [(31, 7, 0.25), (37, 7, 0.5), (41, 7, 0.125), (43, 11, 1)]
    lex.write_bytes(gzip.compress("".join(f"{words[t]} {words[s]} {p}\n" for t, s, p in pairs).encode()))
    command = ["shortlist", "--marian", str(lex), "--output", str(output), "--workdir", str(workdir.path)]
    assert main([*command, "--best", "2", "--frequent", "3"]) == 0
    found = Shortlist.load(output)
    assert sorted(set(found.frequent)) == [1, 3, 4]
    assert set(found.table[7]) == {31, 37, 7} and set(found.table[11]) == {43, 3, 11}
    lex.write_text(f"{words[4]} {words[4]} 0.5\n{words[4]} {words[5]}\n")
    assert main(command) == 1
    assert "lex.s2t.gz, line 2: expected a shortlist of Marian" in capsys.readouterr().err


@pytest.mark.parametrize("loss", [0.05, 0.1, 0.25])
def test_a_loss_above_a_tenth_is_warned_of(run, tmp_path, capsys, caplog, monkeypatch, loss):
    prepared, workdir = run
    effect = ShortlistEffect(7, 2, 40.0, 40.0 - loss, "a signature", 1.5)
    monkeypatch.setattr("tf_transformer.evaluation.shortlist_effect", lambda *arguments: effect)
    command = ["shortlist", "--data", str(prepared.path), "--workdir", str(workdir.path)]
    assert main([*command, "--output", str(tmp_path / "table.npz")]) == 0
    assert "sacreBLEU 40.00 without" in capsys.readouterr().out
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    message = "costs 0.25 sacreBLEU on validation, more than 0.1. Build one with more candidates per token"
    assert [message in warning for warning in warnings] == [True] * (loss > 0.1)


def test_data_or_a_table_is_needed(tmp_path, capsys):
    assert main(["shortlist", "--output", str(tmp_path / "x.npz")]) == 1
    assert "Expected --data DIR or --marian FILE" in capsys.readouterr().err


@pytest.mark.slow
def test_an_export_translates_with_its_shortlist(run, tmp_path, capsys):
    prepared, workdir = run
    size, random = prepared.tokenizers.target.vocab_size, np.random.default_rng(3)
    shortlist = Shortlist.of(random.integers(4, size, (size, 40)), np.arange(4, 90), prepared.tokenizers)
    shortlist.save(tmp_path / "table.npz")
    command = ["export", "--workdir", str(workdir.path), "--output", str(tmp_path / "model")]
    assert main([*command, "--shortlist", str(tmp_path / "table.npz"), "--beam-size", "2"]) == 0
    card = json.loads((tmp_path / "model" / "1" / "model.json").read_text())
    assert card["shortlist"]["shortlist"]["frequent"] == 87 and card["shortlist"]["candidates"] < size
    assert "shortlist" in (tmp_path / "model" / "1" / "README.md").read_text()
    assert card["oldest_server"] == "2.12.1"
    exported = ExportedModel(tmp_path / "model")
    texts = [sentence.encode() for sentence in toy_sentences(6)]
    together = [each.texts[0] for each in exported.translate(texts)]
    assert together == [exported.translate([text])[0].texts[0] for text in texts]
    assert together == Translator.from_workdir(workdir.path, shortlist=shortlist, beam_size=2)(texts)
    few = Shortlist.of(np.full((size, 1), -1), np.array([9]), prepared.tokenizers)
    few.save(tmp_path / "few.npz")
    assert main([*command, "--shortlist", str(tmp_path / "few.npz")]) == 1
    assert "Expected the shortlist to cost at most 0.05" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("kind", [["--weights", "int8"], ["--packed"]], ids=["int8", "packed"])
def test_an_export_with_other_weights_has_a_shortlist_too(run, tmp_path, kind):
    prepared, workdir = run
    size, random = prepared.tokenizers.target.vocab_size, np.random.default_rng(3)
    shortlist = Shortlist.of(random.integers(4, size, (size, 40)), np.arange(4, 90), prepared.tokenizers)
    shortlist.save(tmp_path / "table.npz")
    command = ["export", "--workdir", str(workdir.path), "--output", str(tmp_path / "model"), "--beam-size", "2"]
    assert main([*command, *kind, "--shortlist", str(tmp_path / "table.npz")]) == 0
    card = json.loads((tmp_path / "model" / "1" / "model.json").read_text())
    assert card["shortlist"]["candidates"] < size
    report = inspect_saved_model(tmp_path / "model" / "1")
    if "int8" in kind:
        assert (card["weights"], card["oldest_server"]) == ("int8", "2.17.0")
        assert report.ops["_QuantizedMatMul"] and card["rounding"]["per_token"] < 0.01
    else:
        assert report.ops["_MklNativeFusedMatMul"]
    exported = ExportedModel(tmp_path / "model")
    texts = [sentence.encode() for sentence in toy_sentences(12)]
    together = [each.texts[0] for each in exported.translate(texts)]
    assert together == [exported.translate([text])[0].texts[0] for text in texts]
    expected = Translator.from_workdir(workdir.path, shortlist=shortlist, beam_size=2)(texts)
    without = Translator.from_workdir(workdir.path, beam_size=2)(texts)
    agree = [sum(one == other for one, other in zip(together, others)) for others in (expected, without)]
    assert agree[0] == len(texts) if kind == ["--packed"] else agree[0] > agree[1]
