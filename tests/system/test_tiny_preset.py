"""The `tiny` preset learns the phrasebook in minutes: above 95 BLEU on sentences it has not seen."""

import json

import pytest

from tf_transformer.pipelines.cli import main

pytestmark = pytest.mark.slow


def test_tiny_reaches_95_bleu_on_the_phrasebook(tmp_path, capsys):
    data, run = str(tmp_path / "data"), str(tmp_path / "run")
    assert main(["prepare", "--data", "phrasebook", "--output", data]) == 0
    assert main(["train", "--data", data, "--workdir", run, "--preset", "tiny"]) == 0
    assert main(["average", "--workdir", run]) == 0
    capsys.readouterr()
    assert main(["evaluate", "--workdir", run, "--data", data, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sacrebleu"]["score"] > 95.0
