"""Atomic writing: complete or not at all, whatever happens meanwhile, and nothing left behind."""

import json
import os
import signal
import stat
import subprocess
import sys

import pytest

from tf_transformer import _files
from tf_transformer._files import atomic_directory, atomic_write, hidden_directory, remove_leftovers, write_json


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def start(code, *arguments):
    """A process that runs `code` and waits, with what it prints first already read."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"from tf_transformer._files import *\nimport sys, time\n{code}", *map(str, arguments)],
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"ready\n"
    return process


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_file_appears_at_the_end(tmp_path):
    with atomic_write(tmp_path / "a.txt") as stream:
        stream.write(b"one")
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").read_bytes() == b"one" and names(tmp_path) == ["a.txt"]


def test_a_file_keeps_its_content_after_an_error(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"old")
    with pytest.raises(RuntimeError), atomic_write(tmp_path / "a.txt") as stream:
        stream.write(b"half")
        raise RuntimeError
    assert (tmp_path / "a.txt").read_bytes() == b"old" and names(tmp_path) == ["a.txt"]


def test_permissions_are_the_usual_ones_or_those_of_the_file_that_is_replaced(tmp_path):
    before = os.umask(0o027)
    try:
        write_json(tmp_path / "a.json", {"ü": 1})
        with atomic_directory(tmp_path / "d") as directory:
            write_json(directory / "a.json", {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o750
    (tmp_path / "a.json").chmod(0o600)
    write_json(tmp_path / "a.json", {"ü": 2})
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o600
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"ü": 2}


def test_a_directory_appears_at_the_end_and_replaces_another(tmp_path):
    for text in ("first", "second"):
        with atomic_directory(tmp_path / "made" / "d") as directory:
            (directory / "file").write_text(text)
            assert not (tmp_path / "made" / "d" / "file").exists() or text == "second"
        assert (tmp_path / "made" / "d" / "file").read_text() == text
        assert names(tmp_path / "made") == ["d"]


def test_a_directory_is_replaced_also_where_names_cannot_be_exchanged(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "_exchange", lambda *_: False)
    test_a_directory_appears_at_the_end_and_replaces_another(tmp_path)


def test_leftovers_of_a_name_are_removed_where_nothing_is_written(tmp_path):
    (tmp_path / ".x.writing-12345678" / "new").mkdir(parents=True)
    (tmp_path / ".y.writing-12345678").mkdir()
    _files.remove_leftovers_of(tmp_path / "x")
    assert names(tmp_path) == [".y.writing-12345678"]


def test_errors_of_other_libraries_about_space_name_the_directory(tmp_path):
    for error in (RuntimeError("x/y.tmp; No space left on device [Op:SaveV2]"), ValueError("File too large")):
        with (
            pytest.raises(OSError, match=rf"could not be written: .*'{tmp_path / 'd'}'"),
            atomic_directory(tmp_path / "d"),
        ):
            raise error
    assert names(tmp_path) == []


def test_a_directory_keeps_its_content_after_an_error(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_directory(tmp_path / "d") as directory:
        (directory / "file").write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "d" / "file").read_text() == "old" and names(tmp_path) == ["d"]


def test_a_directory_with_content_is_not_replaced_unless_asked(tmp_path):
    (tmp_path / "d").mkdir()
    with atomic_directory(tmp_path / "d", replace=False) as directory:
        (directory / "file").write_text("first")
    with pytest.raises(FileExistsError, match=r"'.*/d'"), atomic_directory(tmp_path / "d", replace=False):
        pass
    assert (tmp_path / "d" / "file").read_text() == "first" and names(tmp_path) == ["d"]


def test_a_link_to_a_directory_stays_one(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "link").symlink_to("d")
    with atomic_directory(tmp_path / "link") as directory:
        (directory / "file").write_text("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "d" / "file").read_text() == "new"


@pytest.mark.parametrize("make", ["atomic_write", "atomic_directory"])
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, make):
    writer = start(f"with {make}(sys.argv[1]): print('ready', flush=True); time.sleep(600)", tmp_path / "x")
    left = names(tmp_path)
    with getattr(_files, make)(tmp_path / "x") as place:
        assert left[0] in names(tmp_path), "the entry of a running process was removed"
        assert len(names(tmp_path)) == 2 and place is not None
    kill(writer)
    assert names(tmp_path) == [*left, "x"]
    with getattr(_files, make)(tmp_path / "x"):
        pass
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("make", ["atomic_write", "atomic_directory"])
def test_a_second_writer_is_rejected_where_there_may_be_only_one(tmp_path, make):
    with (
        getattr(_files, make)(tmp_path / "x", exclusive=True),
        pytest.raises(OSError, match=r"Another process is writing .*/x .*choose another name"),
        getattr(_files, make)(tmp_path / "x", exclusive=True),
    ):
        pass
    assert names(tmp_path) == ["x"]


def test_the_last_of_two_writers_wins(tmp_path):
    with atomic_directory(tmp_path / "d") as first:
        (first / "file").write_text("first")
        with atomic_directory(tmp_path / "d") as second:
            (second / "file").write_text("second")
        assert (tmp_path / "d" / "file").read_text() == "second"
    assert (tmp_path / "d" / "file").read_text() == "first" and names(tmp_path) == ["d"]


def test_a_directory_moved_aside_by_a_killed_process_comes_back(tmp_path):
    old = tmp_path / ".best.writing-12345678" / "old"
    old.mkdir(parents=True)
    (old / "file").write_text("old")
    remove_leftovers(tmp_path)
    assert (tmp_path / "best" / "file").read_text() == "old" and names(tmp_path) == ["best"]


def test_a_directory_moved_aside_does_not_replace_a_newer_one(tmp_path):
    (tmp_path / ".best.writing-12345678" / "old").mkdir(parents=True)
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "file").write_text("new")
    remove_leftovers(tmp_path)
    assert (tmp_path / "best" / "file").read_text() == "new" and names(tmp_path) == ["best"]


def test_leftovers_of_other_names_and_other_files_stay(tmp_path):
    (tmp_path / ".another.writing-12345678").write_text("half")
    (tmp_path / "x.writing-12345678").write_text("a user's file")
    write_json(tmp_path / "x", {})
    assert names(tmp_path) == [".another.writing-12345678", "x", "x.writing-12345678"]
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["x", "x.writing-12345678"]


def test_a_directory_is_removed_at_once(tmp_path):
    (tmp_path / "d" / "deep").mkdir(parents=True)
    _files.remove_directory(tmp_path / "d")
    assert names(tmp_path) == []


def test_read_only_content_of_a_hidden_directory_is_removed(tmp_path):
    with hidden_directory(tmp_path, "export") as hidden:
        (hidden / "deep").mkdir()
        (hidden / "deep" / "file").write_text("x")
        (hidden / "deep").chmod(0o500)
    assert names(tmp_path) == []


# Python ignores SIGXFSZ: a write beyond the limit fails with an error, as on a full disk.
LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    {body}
except OSError as error:
    print("ready")
    print(error.filename, error.strerror)
"""


@pytest.mark.parametrize(
    "body",
    [
        "with atomic_write(sys.argv[1]) as stream: stream.write(b'x' * 5000)",
        "with atomic_directory(sys.argv[1]) as directory: (directory / 'file').write_bytes(b'x' * 5000)",
        "write_json(sys.argv[1], ['x' * 5000])",
    ],
)
def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_nothing(tmp_path, body):
    process = start(LIMITED.format(body=body), tmp_path / "x")
    told = process.communicate()[0].decode().strip()
    assert told == f"{tmp_path / 'x'} could not be written: File too large"
    assert names(tmp_path) == []


def test_a_parent_that_is_no_directory_is_an_error(tmp_path):
    (tmp_path / "file").write_text("x")
    for make in (atomic_write, atomic_directory):
        with pytest.raises(OSError, match="file"), make(tmp_path / "file" / "x"):
            pass
    assert names(tmp_path) == ["file"]


def test_errors_of_the_block_pass_unchanged(tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"), atomic_write(tmp_path / "x"):
        open(tmp_path / "elsewhere").close()
    assert names(tmp_path) == []


def test_a_file_system_without_locks_is_written_to_and_keeps_leftovers(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    (tmp_path / ".x.writing-12345678").mkdir()
    with atomic_directory(tmp_path / "x") as directory:
        (directory / "file").write_text("x")
    assert names(tmp_path) == [".x.writing-12345678", "x"]
