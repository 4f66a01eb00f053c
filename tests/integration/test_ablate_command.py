"""The ablation on a small corpus: rows trained and scored, kept when finished, resumed when interrupted."""

import dataclasses
import json
import signal

import pytest
from toy_workdir import toy_sentences

from tf_transformer.analysis.ablation import _run as ablation_run
from tf_transformer.analysis.ablation._rows import AblationOptions
from tf_transformer.analysis.ablation._run import Ablation
from tf_transformer.pipelines.cli import main
from tf_transformer.training._run import TrainingResult, train
from tf_transformer.training._run_state import ChangedRunError

OPTIONS = AblationOptions(
    steps=3,
    scale=1 / 32,
    depth_scale=1 / 6,
    settings=(
        "training.batch_tokens=512",
        "training.max_length=32",
        "decoding.beam_size=2",
        "training.steps_per_call=3",
    ),
)
FLAGS = ["--steps", "3", "--scale", str(1 / 32), "--depth-scale", str(1 / 6)]
for setting in OPTIONS.settings:
    FLAGS += ["--set", setting]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ablation")
    command = ["prepare", "--data", "files", "--source-language", "en", "--target-language", "de",
               "--vocab-size", "150", "--workers", "1", "--output", str(folder / "data")]  # fmt: skip
    for seed, (split, count) in enumerate((("train", 300), ("validation", 7)), start=1):
        path = folder / f"{split}.txt"
        path.write_text("\n".join(toy_sentences(count, seed)) + "\n", encoding="utf-8")
        command += [f"--{split}-source", str(path), f"--{split}-target", str(path)]
    assert main(command) == 0
    return folder / "data"


class Recorder:
    """Trains as `train` does and remembers which rows; a row in `interrupt` stops before it begins."""

    def __init__(self, interrupt=()):
        self.rows, self._interrupt = [], set(interrupt)

    def __call__(self, data, workdir, config):
        self.rows.append(workdir.name)
        if workdir.name in self._interrupt:
            return TrainingResult("interrupted", signal.SIGTERM, 1, None, 0.1)
        return train(data, workdir, config)


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """A work directory in which `base` is finished and E was interrupted."""
    workdir = tmp_path_factory.mktemp("rows") / "table3"
    results, interrupted = Ablation(data, workdir, ["base", "E"], OPTIONS, train=Recorder({"E"})).run()
    assert [result.row for result in results] == ["base"]
    assert interrupted.signal == signal.SIGTERM
    return workdir


@pytest.mark.slow
def test_an_interrupted_row_is_not_in_the_table(finished):
    assert [row["row"] for row in json.loads((finished / "table.json").read_text())["rows"]] == ["base"]
    assert not (finished / "E").exists()


def test_the_command_resumes_and_keeps_finished_rows(data, finished, capsys):
    before = (finished / "base" / "ablation.json").read_bytes()
    checkpoints = sorted((finished / "base" / "checkpoints").iterdir())
    code = main(["ablate", "--data", str(data), "--workdir", str(finished), "--rows", "base,E", *FLAGS, "--json"])
    assert code == 0
    table = json.loads(capsys.readouterr().out)
    base, learned = table["rows"]
    assert (base["row"], base["steps"], base["sentences"], base["split"]) == ("base", 3, 7, "validation")
    assert learned["paper"] == {"change": "learned positions", "perplexity": 4.92, "bleu": 25.7, "parameters": None}
    # Row E learns two tables of 1,024 positions, 16 wide at this scale.
    assert learned["parameters"] - base["parameters"] == 2 * 1024 * 16
    assert base["perplexity"] > 1 and base["training_seconds"] > 0 and "tok:13a" in base["signature"]
    assert (finished / "base" / "ablation.json").read_bytes() == before
    assert sorted((finished / "base" / "checkpoints").iterdir()) == checkpoints
    assert {path.name for path in finished.iterdir()} == {
        "base", "E", "table.md", "table.json", "table.png", "table.svg",
    }  # fmt: skip
    assert "| E | learned positions |" in (finished / "table.md").read_text(encoding="utf-8")


def test_rows_finished_earlier_stay_in_the_table(data, finished):
    trainer = Recorder()
    results, _ = Ablation(data, finished, ["E"], OPTIONS, train=trainer).run()
    assert [result.row for result in results] == ["base", "E"] and trainer.rows == []
    other = AblationOptions(3, 1 / 32, 1 / 6, (*OPTIONS.settings, "model.activation=gelu"))
    results, _ = Ablation(data, finished, ["A1"], other, train=Recorder({"A1"})).run()
    assert results == []


def test_other_settings_are_rejected_and_nothing_is_lost(data, finished):
    changed = AblationOptions(3, 1 / 32, 1 / 6, (*OPTIONS.settings, "training.warmup_steps=2"))
    before = (finished / "base" / "ablation.json").read_bytes()
    with pytest.raises(ChangedRunError, match=r"training\.warmup_steps was 1, is 2"):
        Ablation(data, finished, ["base"], changed).run()
    assert (finished / "base" / "ablation.json").read_bytes() == before


def test_more_steps_resume_from_the_last(data, finished):
    more = AblationOptions(5, 1 / 32, 1 / 6, OPTIONS.settings)
    trainer = Recorder()
    (result,), _ = Ablation(data, finished, ["base"], more, train=trainer).run()
    assert trainer.rows == ["base"] and result.steps == 5


def test_a_split_that_there_is_not_is_rejected_before_training(data, tmp_path):
    with pytest.raises(ValueError, match=r"the text of one of the splits .* Received: 'test'"):
        Ablation(data, tmp_path / "rows", ["base"], OPTIONS, split="test")
    assert not (tmp_path / "rows").exists()


def test_rows_are_checked(data, tmp_path, capsys):
    assert main(["ablate", "--data", str(data), "--workdir", str(tmp_path / "rows"), "--rows", "base,Z"]) == 1
    assert "Received: 'Z'" in capsys.readouterr().err


@pytest.mark.slow
def test_rows_of_equal_time_with_several_seeds(data, tmp_path, monkeypatch):
    monkeypatch.setattr(ablation_run, "PROBE_STEPS", 3)
    monkeypatch.setattr(ablation_run, "seconds_per_step", lambda workdir: 0.5)
    options = AblationOptions(
        None, 1 / 32, 1 / 6, (*OPTIONS.settings, "training.checkpoint_steps=2"), 3 / 60, (1, 2), averaged=True
    )
    trainer, workdir = Recorder(), tmp_path / "rows"
    results, _ = Ablation(data, workdir, ["base"], options, train=trainer).run()
    assert trainer.rows == ["base-seed1.probe", "base-seed1", "base-seed2.probe", "base-seed2"]
    assert [(result.row, result.seed, result.steps, result.averaged) for result in results] == [
        ("base", 1, 6, True), ("base", 2, 6, True),
    ]  # fmt: skip
    assert results[0].perplexity != results[1].perplexity
    assert not list(workdir.glob("*.probe"))
    assert "over the seeds 1, 2" in (workdir / "table.md").read_text(encoding="utf-8")
    # Run again, the number of steps is not measured again; scored otherwise, nothing is trained again.
    again = Recorder()
    assert Ablation(data, workdir, ["base"], options, train=again).run() == (results, None) and again.rows == []
    last = dataclasses.replace(options, averaged=False)
    rescored, _ = Ablation(data, workdir, ["base"], last, train=train).run()
    assert [result.steps for result in rescored] == [6, 6] and not rescored[0].averaged
    assert rescored[0].training_seconds == results[0].training_seconds


@pytest.mark.slow
def test_steps_fit_into_the_minutes_by_the_log(data, tmp_path):
    options = dataclasses.replace(OPTIONS, steps=None, minutes=0.001)
    (result,), _ = Ablation(data, tmp_path / "rows", ["base"], options).run()
    assert 1 <= result.steps < 1000


@pytest.mark.parametrize("flags", [["--seeds", "1,x"], ["--minutes", "0"]])
def test_options_are_checked(data, tmp_path, flags, capsys):
    assert main(["ablate", "--data", str(data), "--workdir", str(tmp_path / "rows"), "--rows", "recipe", *flags]) == 1
    assert "Received: " in capsys.readouterr().err and not (tmp_path / "rows").exists()
