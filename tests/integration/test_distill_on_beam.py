"""`tf-transformer distill --engine beam`: the teacher's export translates on Beam; stopped, resumed and compared."""

import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("apache_beam")
pytestmark = pytest.mark.slow

from toy_data import SETTINGS, toy_data, train_command  # noqa: E402

from tf_transformer.decoding import ExportedModel  # noqa: E402
from tf_transformer.pipelines import cli  # noqa: E402

CLI = [sys.executable, "-m", "tf_transformer.pipelines.cli"]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory) -> tuple[pathlib.Path, pathlib.Path, pathlib.Path]:
    """A work directory, the data, and an export."""
    folder = tmp_path_factory.mktemp("teacher")
    data = toy_data(folder)
    subprocess.run(train_command(data, folder / "run"), check=True, capture_output=True)
    export = [*CLI, "export", "--workdir", str(folder / "run"), "--output", str(folder / "exported")]
    subprocess.run(export, check=True, capture_output=True)
    return folder / "run", data, folder / "exported"


def distill_flags(teacher, student: pathlib.Path, *more: str) -> list[str]:
    run, data, exported = map(str, teacher)
    flags = ["distill", "--engine", "beam", "--teacher", run, "--teacher-export", exported, "--data", data]
    flags += ["--workdir", str(student), "--workers", "2", "--part-pairs", "16", "--json", *more]
    for setting in (*SETTINGS, "model.num_decoder_layers=none"):
        flags += ["--set", setting]
    return flags


def descendants(pid: int) -> list[int]:
    children: list[str] = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += path.read_text().split()
    return [each for child in map(int, children) for each in (child, *descendants(child))]


def wait_until(condition) -> None:
    while not condition():
        time.sleep(0.05)


def test_a_stopped_translation_is_resumed_and_leaves_no_worker(teacher, tmp_path):
    student = tmp_path / "student"
    command = [*CLI, *distill_flags(teacher, student)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    shards = student / "translations"
    wait_until(lambda: process.poll() is not None or any(shards.glob("translations-*.shards/shard-*.json")))
    workers = descendants(process.pid)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == 75 and len(workers) > 2, errors[-3000:]
    wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in workers))
    assert not (student / "data").exists()
    finished = {path: path.stat().st_mtime_ns for path in shards.glob("*/shard-*.json")}
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert json.loads(done.stdout)["speed"] > 0
    (sources,), (translations,) = (list(shards.glob(f"{kind}-*.txt")) for kind in ("sources", "translations"))
    lines = sources.read_bytes().split(b"\n")[:-1]
    found = ExportedModel(teacher[2]).translate_sentences(lines)
    expected = ["" if each.truncated else each.texts[0] for each in found]
    assert translations.read_text("utf-8").split("\n")[:-1] == expected
    info = json.loads((student / "data" / "dataset.json").read_text())
    assert info["splits"]["train"]["cleaning"]["read"] == len(lines) > 100
    assert not [path for path in student.rglob(".*") if path.name != ".lock"]


def test_an_export_of_other_weights_is_rejected(teacher, tmp_path, capsys):
    checkpoint = sorted((teacher[0] / "checkpoints").glob("step-*"))[0]
    assert cli.main(distill_flags(teacher, tmp_path / "student", "--teacher-checkpoint", str(checkpoint))) == 1
    assert "Expected an export of the teacher's checkpoint" in capsys.readouterr().err


def test_the_export_is_required(teacher, tmp_path, capsys):
    flags = distill_flags(teacher, tmp_path / "student")
    at = flags.index("--teacher-export")
    assert cli.main(flags[:at] + flags[at + 2 :]) == 1
    assert "Expected --teacher-export with --engine beam" in capsys.readouterr().err
    assert cli.main([*flags, "--teacher-beam-size", "2"]) == 1
    assert "Expected no --teacher-beam-size with --engine beam" in capsys.readouterr().err
