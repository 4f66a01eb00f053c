"""Ends of `train` before its last step: exit codes, messages, and the files that remain."""

import errno
import signal

import pytest
from toy_data import toy_data, train_command

from tf_transformer.pipelines.cli import main
from tf_transformer.training._trainer import Trainer
from tf_transformer.workdir import checkpoints


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return toy_data(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def interrupts(monkeypatch):
    """A list: how often Ctrl-C is pressed before the next steps."""
    presses, train_group = [], Trainer._train_group

    def interrupted(trainer, stop):
        for _ in range(presses.pop() if presses else 0):
            signal.raise_signal(signal.SIGINT)
        return train_group(trainer, stop)

    monkeypatch.setattr(Trainer, "_train_group", interrupted)
    return presses


def names(workdir) -> list[str]:
    return [path.name for path in checkpoints.list_checkpoints(workdir / "checkpoints")]


def test_an_interrupt_saves_and_two_do_not_wait(data, tmp_path, interrupts, capsys):
    interrupts.append(2)
    assert main(train_command(data, tmp_path / "run")[3:]) == 130
    assert "tf-transformer train: interrupted" in capsys.readouterr().err
    assert names(tmp_path / "run") == []
    interrupts.append(1)
    assert main(train_command(data, tmp_path / "run", "--set", "training.steps_per_call=1")[3:]) == 130
    assert names(tmp_path / "run") == ["step-00000001"]


def test_a_full_disk_ends_the_run_with_a_message_and_leaves_nothing_half_written(data, tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints, "_write_info", full)
    assert main(train_command(data, tmp_path / "run", "--set", "training.checkpoint_steps=1")[3:]) == 1
    assert "step-00000001 could not be written (No space left on device). Earlier" in capsys.readouterr().err
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []


def test_a_disk_that_may_only_be_read_ends_it_before_it_begins(data, tmp_path, monkeypatch, capsys):
    def read_only(path, *_, **__):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr("pathlib.Path.mkdir", read_only)
    assert main(train_command(data, tmp_path / "run")[3:]) == 1
    assert f"{tmp_path / 'run'}: Read-only file system" in capsys.readouterr().err
