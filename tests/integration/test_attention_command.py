"""The attention command on a work directory: files that open, tables that machines read, errors that help."""

import csv
import json

import matplotlib.image
import numpy as np
import pytest
from toy_workdir import toy_sentences, toy_workdir

from tf_transformer.analysis.attention._maps import AttentionMaps
from tf_transformer.decoding._translator import Translator
from tf_transformer.pipelines.cli import main


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    # Pictures of long sentences take much memory and time.
    return toy_workdir(tmp_path_factory.mktemp("attention") / "run", max_source_length=31, max_extra_length=7).path


def test_a_sentence_gives_page_arrays_and_pictures(workdir, capsys):
    assert main(["attention", "--workdir", str(workdir), "the red dog.", "--target", "my old house."]) == 0
    printed = capsys.readouterr().out.splitlines()
    folder = workdir / "attention"
    names = {"attention.html", "attention.npz"} | {
        f"{kind}{style}.{ending}"
        for kind in ("encoder", "decoder", "cross")
        for style in ("", "-lines")
        for ending in ("png", "svg")
    }
    assert printed and {path.name for path in folder.iterdir()} == names
    assert sorted(printed) == sorted(str(folder / name) for name in names)
    assert matplotlib.image.imread(folder / "cross.png").ndim == 3
    assert (folder / "cross.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_the_model_translates_where_no_target_is_given(workdir, tmp_path, capsys):
    code = main(["attention", "--workdir", str(workdir), "the red dog.", "--output", str(tmp_path), "--json",
                 "--layers", "1", "--heads", "1,3"])  # fmt: skip
    assert code == 0
    printed = json.loads(capsys.readouterr().out)
    translator = Translator.from_workdir(workdir)
    written = translator.target_tokenizer.encode(translator(["the red dog."])[0])
    assert printed["target"] == translator.target_tokenizer.pieces(written)
    assert str(tmp_path / "attention.html") in printed["files"]
    assert AttentionMaps.load(tmp_path / "attention.npz").cross.shape[:2] == (3, 3)


def test_a_sentence_that_is_too_long_is_truncated_as_in_translation(workdir, tmp_path, capsys, caplog):
    translator = Translator.from_workdir(workdir)
    command = ["attention", "--workdir", str(workdir), "dog " * 500, "--output", str(tmp_path), "--json"]
    assert main([*command, "--layers", "1", "--heads", "1"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert len(printed["source"]) == translator.longest_source and printed["source"][-1] == "</s>"
    assert f"the maps are of the {translator.longest_source} that the model reads" in caplog.text


def test_layers_that_only_one_stack_has(workdir, tmp_path, capsys):
    command = ["attention", "--workdir", str(workdir), "a dog", "--target", "a cat", "--output", str(tmp_path)]
    assert main([*command, "--layers", "3", "--heads", "2"]) == 0  # the encoder has two, the decoder three
    assert (tmp_path / "cross.png").is_file() and not (tmp_path / "encoder.png").exists()
    assert main([*command, "--layers", "4"]) == 1
    assert "Expected layers from 1 to 3, which this model has. Received: [4]" in capsys.readouterr().err


def test_positions_of_the_model(workdir, tmp_path):
    assert main(["attention", "--workdir", str(workdir), "--positions", "--output", str(tmp_path)]) == 0
    assert np.asarray(matplotlib.image.imread(tmp_path / "positions.png")).std() > 0
    assert (tmp_path / "positions.svg").is_file()


@pytest.fixture
def corpus(tmp_path):
    for name, seed in (("source", 3), ("reference", 5)):
        (tmp_path / name).write_text("\n".join(toy_sentences(7, seed)) + "\n", encoding="utf-8")
    return ["--source", str(tmp_path / "source"), "--reference", str(tmp_path / "reference")]


def test_summary_over_files(workdir, corpus, tmp_path, capsys):
    command = ["attention", "--workdir", str(workdir), "--summary", *corpus, "--output", str(tmp_path)]
    assert main(command) == 0
    table = capsys.readouterr().out.splitlines()
    assert " ".join(table[0].split()) == "kind layer head entropy reach distance previous same next first last role"
    assert len([line for line in table if line.startswith(("encoder ", "decoder ", "cross "))]) == 2 * 3 + 3 * 3 * 2
    with open(tmp_path / "heads.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert main([*command, "--json", "--max-pairs", "7"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["pairs"] == 7
    assert [float(row["entropy"]) for row in rows] == [head["entropy"] for head in printed["heads"]]
    assert (tmp_path / "heads.png").is_file()


def test_missing_inputs_are_named(workdir, capsys):
    assert main(["attention", "--workdir", str(workdir)]) == 1
    assert "--summary, --positions or --choose-alignment" in capsys.readouterr().err
    assert main(["attention", "--workdir", str(workdir), "--summary"]) == 1
    assert "Give --data DIR, a prepared directory, or --source and --reference" in capsys.readouterr().err
    assert main(["attention", "--workdir", str(workdir), "a dog", "--target", "a cat", "--heads", "4"]) == 1
    assert "Expected heads from 1 to 3, which this model has. Received: [4]" in capsys.readouterr().err


@pytest.mark.parametrize("numbers", ["0", "x", "3-1", ""])
def test_numbers_are_checked(workdir, numbers, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["attention", "--workdir", str(workdir), "a dog", "--layers", numbers])
    assert stopped.value.code == 2
    assert "such as 1,3 or 2-4" in capsys.readouterr().err


def test_heads_for_alignment_are_chosen_and_written(workdir, tmp_path, capsys):
    for name, lines in (("source", toy_sentences(5, 1)), ("target", toy_sentences(5, 2)), ("gold", ["0-0 1?1"] * 5)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    before = json.loads((workdir / "config.json").read_text())
    files = ["--source", str(tmp_path / "source"), "--reference", str(tmp_path / "target")]
    command = ["attention", "--workdir", str(workdir), "--choose-alignment", *files]
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["pairs"] == 5 and len(printed["candidates"]) == 3 * 3 + 3 + 2
    assert printed["candidates"][0]["agreement"] == max(each["agreement"] for each in printed["candidates"])
    after = json.loads((workdir / "config.json").read_text())
    assert after["decoding"].pop("alignment_heads") == printed["alignment_heads"] == printed["candidates"][0]["heads"]
    del before["decoding"]["alignment_heads"]
    assert after == before
    assert main([*command, "--alignments", str(tmp_path / "gold")]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert table[0] == ["heads", "agreement", "AER"] and table[1][2] != "-"
    (tmp_path / "gold").write_text("0-0\n")
    assert main([*command, "--alignments", str(tmp_path / "gold")]) == 1
    assert "as many lines in --alignments as pairs, 5. Received: 1" in " ".join(capsys.readouterr().err.split())
    assert main(["attention", "--workdir", str(workdir), "--choose-alignment", "--alignments", "x"]) == 1
