"""The model card: what it carries on from the work directory, and what it leaves out."""

import dataclasses
import json
import pathlib
import re
import shutil
import types

import pytest
from toy_saved_model import write_toy
from toy_workdir import toy_workdir

from tf_transformer.decoding import WARNINGS
from tf_transformer.evaluation._evaluation import Evaluation
from tf_transformer.evaluation._record import write_record
from tf_transformer.evaluation._scores import corpus_scores
from tf_transformer.export._card_facts import card_facts, scores_of
from tf_transformer.export._model_card import card_text, model_card, write_model_card
from tf_transformer.export._stored_weights import Rounding
from tf_transformer.export._verify import Trial
from tf_transformer.export.inspection._inspect import inspect_saved_model
from tf_transformer.workdir.checkpoints import read_info

DATA = {
    "source_language": "en",
    "target_language": "de",
    "corpus": {"spec": "files", "identity": {"train": {"source": {"path": "/home/somebody/train.en"}}}},
    "splits": {"train": {"pairs": 10_007}},
    "command": "tf-transformer prepare --train-source /home/somebody/train.en",
    "directory": "/home/somebody/data",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("card")
    write_toy(folder / "model")
    return toy_workdir(folder / "run"), inspect_saved_model(folder / "model")


@pytest.fixture
def workdir(made, tmp_path):
    """A copy of a toy's work directory that says where its data came from."""
    shutil.copytree(made[0].path, tmp_path / "run")
    (tmp_path / "run" / "dataset.json").write_text(json.dumps(DATA))
    return type(made[0])(tmp_path / "run")


def card(workdir, report, **changes):
    weights = changes.pop("weights", "float32")
    decoding = changes.pop("decoding", workdir.config.decoding)
    candidate = types.SimpleNamespace(
        facts=card_facts(workdir, workdir.checkpoint(), decoding, weights, 30_011, changes.pop("packed", False)),
        rounding=None,
        restriction=None,
        sentences=[b""] * 200,
        sentences_from="of the validation set",
    )
    vars(candidate).update(changes)
    return model_card(candidate, report, Trial(43, 631, 1.5, 20.0), {"saved_model.pb": {"size": 7, "sha256": "…"}})


def evaluate(workdir, name, checkpoint, hypotheses):
    references = ["Das ist ein kleiner Satz .", "Noch einer ist hier zu sehen ."]
    scores = corpus_scores(hypotheses, references, "de", bootstrap=0)
    weights = {"name": "best", "step": 7, "files": read_info(checkpoint)["files"]}
    config = {"checkpoint": weights, "decoding": workdir.config.decoding.to_dict(), "test_set": "test"}
    evaluation = Evaluation(hypotheses, scores, -5.0, 11, 0, 1.0)
    write_record(workdir.evaluation / name, evaluation, references, references, config, ["tf-transformer"])


def test_what_the_data_is_and_not_where_it_lay(workdir, made, tmp_path):
    made_card = card(workdir, made[1])
    assert made_card["languages"] == {"source": "en", "target": "de"}
    assert made_card["data"] == {"corpus": "files", "pairs": {"train": 10_007}}
    write_model_card(tmp_path, made_card)
    assert json.loads((tmp_path / "model.json").read_text()) == made_card
    readme = (tmp_path / "README.md").read_text()
    assert "# Translation en → de" in readme and "train 10,007" in readme and "30,011 parameters" in readme
    assert "somebody" not in readme + json.dumps(made_card)


def test_scores_are_those_of_this_very_checkpoint(workdir, made, tmp_path):
    info = read_info(workdir.checkpoint())
    good = ["Das ist ein kleiner Satz .", "Noch einer ist hier zu sehen ."]
    evaluate(workdir, "this", workdir.checkpoint(), good)
    evaluate(workdir, "that", workdir.checkpoint(), ["nichts", "davon"])
    config = workdir.evaluation / "that" / "config.json"
    config.write_text(config.read_text().replace(info["files"]["model.safetensors"]["sha256"], "0" * 64))
    (workdir.evaluation / "torn").mkdir()
    (workdir.evaluation / "torn" / "scores.json").write_text("{")

    (found,) = scores_of(workdir, workdir.checkpoint())
    assert [score["name"] for score in found["scores"]] == ["sacreBLEU", "chrF", "tokenized compound-split BLEU"]
    write_model_card(tmp_path, card(workdir, made[1]))
    readme = (tmp_path / "README.md").read_text()
    assert "sacreBLEU 100.00" in readme and r"nrefs:1\|case:mixed\|eff:no\|tok:13a" in readme


def test_without_scores_the_card_states_that(workdir, made, tmp_path):
    write_model_card(tmp_path, card(workdir, made[1]))
    assert "None were measured" in (tmp_path / "README.md").read_text()


def test_the_licence_of_imported_weights_is_carried_on(workdir, made, tmp_path):
    assert card(workdir, made[1])["licence"] is None
    facts = {"format": "Marian", "from": "opus-mt-en-de", "licence": "CC-BY-4.0"}
    (workdir.path / "import.json").write_text(json.dumps(facts))
    made_card = card(workdir, made[1])
    assert (made_card["licence"], made_card["imported"]) == ("CC-BY-4.0", facts)
    write_model_card(tmp_path, made_card)
    assert "imported from opus-mt-en-de (Marian)" in (tmp_path / "README.md").read_text()


def test_what_smaller_weights_changed(workdir, made, tmp_path):
    write_model_card(tmp_path, card(workdir, made[1], weights="float16", rounding=Rounding(200, 3, 1.3e-4)))
    assert "3 of 200 translations" in (tmp_path / "README.md").read_text()


def test_packed_weights_and_what_they_need(workdir, made):
    packed, plain = (card(workdir, made[1], packed=packed) for packed in (True, False))
    assert packed["packed"] is True and plain["packed"] is False
    assert "float32; the decoder's are packed once for steps of at most 6 hypotheses" in card_text(packed)
    assert "TensorFlow with oneDNN for Linux on x86-64" in card_text(packed) and "oneDNN" not in _weights(plain)


def _weights(made_card):
    return next(line for line in card_text(made_card).splitlines() if line.startswith("| weights |"))


def test_the_card_explains_the_warnings(workdir, made):
    text = card_text(card(workdir, made[1]))
    assert all(f"| `{code}` | {meaning} |" in text for code, meaning in WARNINGS.items())
    assert "failure detection is off" in text
    on, plain = (dataclasses.replace(workdir.config.decoding, **{name: value}) for name, value in
                 (("failure_detection", True), ("segmentation", False)))  # fmt: skip
    assert "failure detection is off" not in card_text(card(workdir, made[1], decoding=on))
    assert "## Warnings" not in card_text(card(workdir, made[1], decoding=plain))


def test_the_card_states_the_length_reward(workdir, made):
    without, rewarded = (
        dataclasses.replace(workdir.config.decoding, alpha=0.0, length_reward=reward) for reward in (0.0, 0.65)
    )
    assert "alpha 0.0, 0.65 per token, output at most" in card_text(card(workdir, made[1], decoding=rewarded))
    assert "alpha 0.0, output at most" in card_text(card(workdir, made[1], decoding=without))


BATCHING_FLAGS = {"--enable_per_model_batching_parameters", "--rest_api_num_threads=64", "--max_num_load_retries=0"}
ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_card_warns_of_what_batching_changes(workdir, made):
    text = " ".join(card_text(card(workdir, made[1])).split())
    for words in ("reject empty batches", "liveness probe", "have different shapes", "pad_variable_length_inputs"):
        assert words in text
    assert "Answers of `attention` and `alignment` are padded" in text


@pytest.mark.parametrize("file", ["docs/how-to/serve-in-production.md", "export/_model_card.py"])
def test_every_command_and_manifest_has_the_flags_that_batching_needs(file):
    text = (ROOT / file).read_text(encoding="utf-8").replace("=true", "")
    places = [text[match.start() : match.start() + 250] for match in re.finditer(r'(\s|")--enable_batching\b', text)]
    assert places and all(flag in place for place in places for flag in BATCHING_FLAGS)
