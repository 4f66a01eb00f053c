"""Distillation as one call, with the processes of teacher and comparison in this one, and a training that is a stub."""

import dataclasses
import json

import pytest
from toy_data import toy_config, toy_data
from toy_workdir import TOY, randomize

from tf_transformer.data import PreparedDataset
from tf_transformer.distillation import Comparison, Distillation, Teacher, _distill
from tf_transformer.model import Transformer
from tf_transformer.training import TrainingResult, with_vocabulary
from tf_transformer.workdir import Workdir, model_tensors
from tf_transformer.workdir.checkpoints import save_checkpoint


def random_run(path, prepared, config, step=3):
    """A work directory of random weights, as `train` would leave it."""
    config = with_vocabulary(config, prepared.tokenizers)
    workdir = Workdir.create(path, config, prepared.tokenizers, prepared.info)
    model = Transformer(config.model)
    randomize(model)
    save_checkpoint(workdir.checkpoints / f"step-{step:08d}", model_tensors(model), step=step)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return PreparedDataset(toy_data(tmp_path_factory.mktemp("distill")))


@pytest.fixture(scope="module")
def teacher(prepared, tmp_path_factory):
    path = tmp_path_factory.mktemp("teacher") / "run"
    random_run(path, prepared, dataclasses.replace(toy_config("decoding.max_extra_length=2"), model=TOY))
    return Teacher(str(path), decoding={"beam_size": 2})


@pytest.fixture
def calls(monkeypatch):
    """Replaces the processes and the training; records what was called."""
    made = []

    def run_here(function, *arguments, stop, progress):
        made.append(function.__name__)
        return function(*arguments, progress)

    def train(data, workdir, config):
        made.append("train")
        if not (workdir / "config.json").exists():
            random_run(workdir, PreparedDataset(data), config)
        return TrainingResult("finished", None, 3, None, 0.1)

    monkeypatch.setattr(_distill, "run_in_child", run_here)
    monkeypatch.setattr(_distill, "train", train)
    return made


STUDENT = ("model.decoder_autoregression=ssru", "decoding.beam_size=1", "decoding.max_extra_length=2")


@pytest.mark.slow
def test_a_student_is_compared_with_its_teacher(prepared, teacher, calls, tmp_path, monkeypatch):
    student = tmp_path / "student"
    distillation = Distillation(teacher, prepared.path, student, toy_config(*STUDENT), "the command", part_pairs=150)
    comparison, training, stop_signal = distillation.run()
    assert calls == ["translate_sources", "train", "compare"]
    assert (training.step, stop_signal) == (3, None)
    assert comparison.teacher.layers == (2, 3) and comparison.student.layers == (1, 1)
    assert (comparison.teacher.beam_size, comparison.student.beam_size) == (2, 1)
    assert comparison.student.checkpoint == "average"
    assert comparison.speed == comparison.student.sentences_per_second / comparison.teacher.sentences_per_second
    assert list(comparison.quality) == ["validation"] and "tok:13a" in comparison.student.signature
    saved = json.loads((student / "distillation.json").read_text())
    assert saved["student"]["parameters"] == comparison.student.parameters and saved["command"] == "the command"
    assert PreparedDataset(student / "data").info["corpus"]["spec"] == "distilled"
    names = sorted(path.name for path in (student / "translations").iterdir())
    assert names == ["part-00000.tsv", "part-00001.tsv", "translations.json"]
    # Again: nothing is translated, and the training decides itself that it is finished.
    del calls[:]
    monkeypatch.setattr(_distill, "run_in_child", stopped)
    again = Distillation(teacher, prepared.path, student, toy_config(*STUDENT), part_pairs=150)
    assert again.run() == (None, TrainingResult("finished", None, 3, None, 0.1), 2)
    assert calls == ["train"]


def stopped(function, *arguments, stop, progress):
    stop.signal = 2
    raise _distill.StoppedError


def test_an_interrupted_training_is_not_compared(prepared, teacher, calls, tmp_path, monkeypatch):
    def translate(function, *arguments, stop, progress):
        folder = tmp_path / "student" / "translations"
        (folder / "part-00000.tsv").write_text("a cat.\tthe dog.\n" * 40)

    result = TrainingResult("interrupted", 15, 2, None, 0.1)
    monkeypatch.setattr(_distill, "run_in_child", translate)
    monkeypatch.setattr(_distill, "train", lambda *arguments: result)
    distillation = Distillation(teacher, prepared.path, tmp_path / "student", toy_config(), part_pairs=300)
    assert distillation.run() == (None, result, 15)
    assert not (tmp_path / "student" / "distillation.json").exists()


def test_a_stop_during_the_translation_ends_before_the_data_is_made(prepared, teacher, calls, tmp_path, monkeypatch):
    monkeypatch.setattr(_distill, "run_in_child", stopped)
    assert Distillation(teacher, prepared.path, tmp_path / "s", toy_config()).run() == (None, None, 2)
    assert not (tmp_path / "s" / "data").exists() and calls == []


def test_default_fields_of_the_search_are_no_part_of_the_origin(teacher):
    assert teacher.resolved().origin()["decoding"] == {"beam_size": 2, "max_extra_length": 2}


def test_data_of_another_tokenizer_is_rejected(teacher, tmp_path):
    other = toy_data(tmp_path, vocabulary=140)
    with pytest.raises(ValueError, match="prepare --tokenizer"):
        Distillation(teacher, other, tmp_path / "student", toy_config())


def test_the_teachers_directory_is_not_the_students(prepared, teacher):
    with pytest.raises(ValueError, match="work directory for the student"):
        Distillation(teacher, prepared.path, teacher.workdir, toy_config())


def test_the_table_shows_what_is_kept_and_gained():
    from tf_transformer.distillation._comparison import ModelFacts

    teacher = ModelFacts(
        "t", "average", "base", (6, 6), 4000, 16000, 4, {"test": 40.0}, {"test": 60.0}, "tok:13a", 10.0
    )
    student = dataclasses.replace(
        teacher, layers=(6, 2), parameters=1000, sacrebleu={"test": 39.0}, sentences_per_second=45.0, beam_size=1
    )
    table = Comparison(
        teacher, student, {"test": 39 / 40}, 4.5, 0.25, "2 CPU cores", 256, 3, {}, "2026-01-01T00:00:00+00:00"
    ).markdown()
    lines = table.splitlines()
    assert lines[0] == "|  | layers | parameters | weights | beam | sacreBLEU, test | sentences/s |"
    assert lines[2].startswith("| teacher | 6 + 6 | 4,000 |") and "| 40.00 | 10.0 |" in lines[2]
    assert lines[4] == "| student / teacher |  | 0.25 | 0.25 |  | 97.5% | 4.50 × |"
    assert "median of 3 rounds" in table and "tok:13a" in table
