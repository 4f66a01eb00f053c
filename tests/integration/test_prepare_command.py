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


def write_more(folder):
    """Two file pairs that a glob finds, the second of which repeats a pair of the first, and a TSV."""
    for name, first, count in (("a", 1000, 101), ("b", 1100, 59)):
        for side, word in (("en", "house"), ("de", "Haus")):
            lines = [f"{word} {n} by {n % 7}\n" for n in range(first, first + count)]
            (folder / f"more-{name}.{side}").write_text("".join(lines))
    (folder / "own.tsv").write_text("".join(f"tree {n} or {n % 5}\tBaum {n} or {n % 5}\n" for n in range(37)))


def test_several_files_are_mixed_by_their_weights_and_counted(files):
    write_more(files)
    more = ["--train-source", str(files / "more-*.en"), "--train-target", str(files / "more-*.de")]
    more += ["--train-tsv", str(files / "own.tsv"), "--validation-tsv", str(files / "test.tsv")]
    weights = [word for weight in ("1", "0.5", "3") for word in ("--train-weight", weight)]
    assert cli.main(arguments(files, *more, *weights)) == 0
    prepared = PreparedDataset(files / "data")
    train = prepared.info["splits"]["train"]
    corpora = train["corpora"]
    assert [one["files"] for one in corpora] == [
        ["train.en", "train.de.gz"], ["more-a.en", "more-a.de"], ["more-b.en", "more-b.de"], ["own.tsv"],
    ]  # fmt: skip
    assert [one["weight"] for one in corpora] == [1.0, 0.5, 0.5, 3.0]
    assert [one["cleaning"]["read"] for one in corpora] == [307, 101, 59, 37]
    assert corpora[2]["cleaning"]["dropped"]["duplicate"] == 1
    assert (corpora[0]["pairs"], corpora[3]["pairs"]) == (307, 111)
    assert 35 < corpora[1]["pairs"] < 66 and 15 < corpora[2]["pairs"] < 43
    assert train["pairs"] == sum(one["pairs"] for one in corpora) == prepared.length_counts().pairs.sum()
    assert train["cleaning"]["read"] == 504 and train["cleaning"]["kept"] == 503


def test_held_out_pairs_are_in_no_copy_of_the_training_set(files):
    assert cli.main(arguments(files, "--train-weight", "2")) == 0
    prepared = PreparedDataset(files / "data")
    assert prepared.info["splits"]["train"]["pairs"] == 2 * 292
    assert prepared.info["splits"]["validation"]["pairs"] == 15


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--train-source", "x.en"], "Expected a --train-target for each --train-source. Received: 2 sources and 1"),
        (["--train-weight", "1", "--train-weight", "2"], "Received: 2 weights for 1 of them"),
        (["--train-weight", "0"], "Expected a --train-weight above 0. Received: 0.0"),
        (["--validation-tsv", "nothing-*.tsv"], "Expected files for nothing-*.tsv. Received: none"),
    ],
)
def test_files_that_do_not_fit_together_are_rejected(files, capsys, more, message):
    assert cli.main(arguments(files, *more)) == 1
    assert message in " ".join(capsys.readouterr().err.split())
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
