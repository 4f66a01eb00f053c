"""The command `prepare`, as it is typed: files in, a directory and a summary out, errors on stderr."""

import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tf_transformer.data._prepared import PreparedDataset
from tf_transformer.pipelines import cli


@pytest.fixture
def files(tmp_path):
    lines = [f"number {n} is the {n * n % 97} of {n % 89}" for n in range(307)]
    (tmp_path / "train.en").write_text("".join(f"{line}\n" for line in lines))
    with gzip.open(tmp_path / "train.de.gz", "wt") as file:
        file.writelines(f"Nummer {line[7:]}\r\n" for line in lines)
    (tmp_path / "test.tsv").write_text("number 1\tNummer 1\nnumber 2\tNummer 2\n")
    return tmp_path


def arguments(files, *more):
    return [
        "prepare", "--data", "files", "--output", str(files / "data"), "--train-source", str(files / "train.en"),
        "--train-target", str(files / "train.de.gz"), "--test-tsv", str(files / "test.tsv"),
        "--source-language", "en", "--target-language", "de", "--vocab-size", "151", *more,
    ]  # fmt: skip


def test_files_are_prepared(files, capsys):
    assert cli.main(arguments(files)) == 0
    assert "train: 292 of 307 pairs" in capsys.readouterr().out
    prepared = PreparedDataset(files / "data")
    assert prepared.lines("test") == (["number 1", "number 2"], ["Nummer 1", "Nummer 2"])
    assert prepared.info["command"].startswith("tf-transformer prepare --data files")
    assert prepared.info["splits"]["train"]["cleaning"]["changed"]["carriage_return"] == 307
    assert cli.main(arguments(files, "--json")) == 0
    assert json.loads(capsys.readouterr().out)["splits"]["validation"]["pairs"] == 15


def test_other_flags_are_rejected_with_what_differs(files, capsys):
    assert cli.main(arguments(files)) == 0
    assert cli.main(arguments(files, "--max-length", "31")) == 1
    assert "max_length: 256 → 31" in capsys.readouterr().err
    assert cli.main(arguments(files, "--max-length", "31", "--overwrite")) == 0
    assert PreparedDataset(files / "data").info["inputs"]["max_length"] == 31


def test_a_tsv_and_a_source_at_once_are_rejected(files, capsys):
    assert cli.main(arguments(files, "--test-source", "x")) == 1
    assert "Expected --test-tsv, or --test-source" in capsys.readouterr().err
    assert not (files / "data").exists()


def test_workers_do_without_tensorflow():
    code = "import sys, tf_transformer.data.preparation._encoding; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0


KILLED = """
import os, pathlib, signal, sys
from multiprocessing import active_children
from tf_transformer.data.preparation._encoding import Encoder, encode_chunks
from tf_transformer.data.preparation._spool import Spool
from tf_transformer.text import Subwords
from tf_transformer.text import train_model

if __name__ == "__main__":
    spool = Spool(pathlib.Path(sys.argv[1]), chunk_pairs=3)
    for number in range(300):
        spool.add((b"number %d" % number, b"Nummer %d" % number))
    spool.close()
    subwords = Subwords(train_model(["number 1234567890 Nummer"], 131, exact=False))
    results = encode_chunks(Encoder(subwords, subwords, 50), spool.chunks, 2)
    next(results)
    print(*(child.pid for child in active_children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_a_killed_parent(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    command = [sys.executable, str(tmp_path / "killed.py"), str(tmp_path / "spool")]
    # Not subprocess.run: it would wait for the workers, which hold the pipe open.
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        workers = [int(word) for word in process.stdout.readline().split()]
        process.wait()
        assert process.returncode == -signal.SIGKILL and len(workers) == 2
        deadline = time.monotonic() + 1200
        while any(is_running(pid) for pid in workers):
            assert time.monotonic() < deadline, "the workers outlive their parent"
            time.sleep(0.05)


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
