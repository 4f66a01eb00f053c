import os

import pytest

from tf_transformer.pipelines._text_io import open_output


def test_a_file_appears_when_all_went_well(tmp_path):
    path = tmp_path / "out.txt"
    with open_output(str(path)) as stream:
        stream.write(b"one\n")
        assert not path.exists()
    assert path.read_bytes() == b"one\n"
    assert [file.name for file in tmp_path.iterdir()] == ["out.txt"]


def test_what_was_there_stays_when_something_fails(tmp_path):
    path = tmp_path / "out.txt"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), open_output(str(path)) as stream:
        stream.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["out.txt"]


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "file.txt").write_bytes(b"old")
    (tmp_path / "link.txt").symlink_to("file.txt")
    with open_output(str(tmp_path / "link.txt")) as stream:
        stream.write(b"new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "file.txt").read_bytes() == b"new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open_output(str(path)) as stream:
        stream.write(b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_standard_output_by_default_and_by_name(capsysbinary):
    for path in (None, "-", "/dev/stdout"):
        with open_output(path) as stream:
            stream.write(b"line\n")
    assert capsysbinary.readouterr().out == b"line\n" * 3
