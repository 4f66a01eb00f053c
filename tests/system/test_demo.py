"""The demo, with a training of a few steps: all of it happens, a second run only resumes, and a new model is served."""

import re
import shlex

import pytest

from tf_transformer.pipelines import average, cli, demo

pytestmark = pytest.mark.slow

QUICK = ["--set", "training.checkpoint_steps=10", "--set", "training.validation_steps=20"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


def walk(folder, steps):
    return cli.main(["demo", "--output", str(folder), "--set", f"training.max_steps={steps}", *QUICK])


def test_interrupted_it_names_the_command_that_resumes(folder, monkeypatch, capsys):
    monkeypatch.setattr(average, "run", lambda args: 130)
    assert walk(folder, 20) == 130
    told = capsys.readouterr().err
    assert "[3/8] Average" in told and "[4/8]" not in told
    assert f"To resume from here, run again: tf-transformer demo --output {folder}" in told


def test_then_it_resumes_to_the_end(folder, capsys):
    assert walk(folder, 20) == 0
    printed = capsys.readouterr()
    assert re.findall(r"^\[(\d)/8\]", printed.err, re.MULTILINE) == list("12345678")
    assert "sacreBLEU" in printed.out and "'seven old bakers' -> '" in printed.out
    assert printed.out.count("phrasebook has") >= demo.UNSEEN
    assert [path.name for path in (folder / "model" / "phrasebook").iterdir()] == ["1"]
    for line in re.findall(r"tf-transformer .*", printed.err.replace("\\\n", " ").split("What next?")[1]):
        words = shlex.split(line)[1:]
        assert cli._parser(words).parse_args(words).verb == words[0]


def test_again_nothing_is_exported_twice_until_the_model_changes(folder, capsys):
    assert walk(folder, 20) == 0
    assert "has this model already" in capsys.readouterr().err
    assert walk(folder, 30) == 0
    assert sorted(path.name for path in (folder / "model" / "phrasebook").iterdir()) == ["1", "2"]
    assert "phrasebook/2" in capsys.readouterr().err
