"""Terminal output of the commands: results to stdout, messages to stderr, TensorFlow's only with --verbose."""

import os
import pathlib
import subprocess
import sys

import pytest
from toy_workdir import toy_workdir

from tf_transformer._startup_messages import is_startup_message

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return toy_workdir(tmp_path_factory.mktemp("toy") / "run").path


def run(module, *arguments, stdin=b"hello\n"):
    command = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(command, capture_output=True, input=stdin, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines(), done.stderr.splitlines()


def test_no_start_up_messages_in_a_checkout(workdir):
    results, messages = run("pipelines.translate", "--workdir", workdir)
    assert len(results) == 1
    # On a slow machine there are lines of progress in between.
    assert {line.decode().partition(" in ")[0].partition(",")[0] for line in messages} == {
        f"Loading the weights of {workdir}/checkpoints/step-00000007.",
        "translating: 1 line",
    }


@pytest.mark.slow
def test_no_start_up_messages_of_an_export_and_the_processes_it_starts(workdir, tmp_path):
    results, messages = run("tf_transformer.pipelines.cli", "export", "--workdir", workdir, "--output", tmp_path / "m")
    assert results == [str(tmp_path / "m" / "1")]
    assert not [line for line in messages if is_startup_message(line) or b"tensorflow" in line.lower()], messages


def test_start_up_messages_with_verbose(workdir):
    _, messages = run("tf_transformer.pipelines.cli", "translate", "--workdir", workdir, "--verbose")
    assert any(is_startup_message(line) for line in messages)
