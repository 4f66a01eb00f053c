"""`tf-transformer distill` from the command line: killed during the translation, resumed, and compared."""

import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from toy_data import SETTINGS, toy_data, train_command

pytestmark = pytest.mark.slow


def distill_command(teacher: pathlib.Path, data: pathlib.Path, student: pathlib.Path) -> list[str]:
    command = [sys.executable, "-m", "tf_transformer.pipelines.cli", "distill", "--teacher", str(teacher)]
    command += ["--data", str(data), "--workdir", str(student), "--preset", "tiny-ssru", "--part-pairs", "32", "--json"]
    for setting in (*SETTINGS, "model.num_decoder_layers=none"):
        command += ["--set", setting]
    return command


def wait_for_parts(process: subprocess.Popen, folder: pathlib.Path, count: int) -> None:
    """Wait until so many parts are there; the process must not end before."""
    while len(list(folder.glob("part-*.tsv"))) < count:
        if process.poll() is not None:
            raise AssertionError(f"The command ended with {process.returncode}: {process.stderr.read()[-3000:]}")
        time.sleep(0.05)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher")
    data = toy_data(folder)
    subprocess.run(train_command(data, folder / "run"), check=True, capture_output=True)
    return folder / "run", data


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 75)])
def test_an_interrupted_translation_is_resumed(teacher, tmp_path, number, code):
    student = tmp_path / "student"
    command = distill_command(*teacher, student)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_parts(process, student / "translations", 1)
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == code, errors[-3000:]
    assert not (student / "config.json").exists() and not (student / "data").exists()
    marked = student / "translations" / "part-00000.tsv"
    marked.write_text("a marked cat.\tthe marked dog.\n" * 32)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert marked.read_text() == "a marked cat.\tthe marked dog.\n" * 32
    comparison = json.loads(done.stdout)
    assert comparison == json.loads((student / "distillation.json").read_text())
    assert comparison["student"]["beam_size"] == 1 and comparison["speed"] > 0
    assert "translating with the teacher" in done.stderr
    left = [path.name for path in student.rglob(".*") if path.name != ".lock"]
    assert not left
