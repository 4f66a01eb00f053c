"""Versions appear by a rename, count up, and leave what is there alone."""

import os
import stat

import pytest

from tf_transformer._model_versions import next_version
from tf_transformer.export import _publishing as publishing


def write(directory, text="new"):
    directory.mkdir(parents=True)
    (directory / "saved_model.pb").write_text(text)
    return directory


def publish(base, text="new"):
    with publishing.workspace(base) as place:
        return publishing.publish(write(place / "written", text), base)


def identity(path):
    """The state of a file that a change of it changes; its time of access may change by reading."""
    facts = path.stat()
    return facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def test_versions_count_up_and_existing_ones_are_not_touched(tmp_path):
    base = tmp_path / "made" / "on demand"
    assert publish(base, "first") == base / "1"
    before = identity(base / "1" / "saved_model.pb")
    assert publish(base, "second") == base / "2"
    assert identity(base / "1" / "saved_model.pb") == before
    assert (base / "2" / "saved_model.pb").read_text() == "second"
    assert sorted(path.name for path in base.iterdir()) == ["1", "2"]


def test_what_is_being_written_has_a_name_that_servers_ignore(tmp_path):
    with publishing.workspace(tmp_path) as place:
        assert place.parent == tmp_path and not place.name.isdigit()
        write(place / "1")
        assert next_version(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_an_export_that_fails(tmp_path):
    with pytest.raises(RuntimeError), publishing.workspace(tmp_path) as place:
        publishing.make_read_only(write(place / "written"))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_export_are_removed_and_those_of_a_running_one_kept(tmp_path):
    with publishing.workspace(tmp_path) as running:
        killed = tmp_path / ".export.writing-12345678"
        publishing.make_read_only(write(killed / "written"))
        with publishing.workspace(tmp_path):
            assert running.is_dir() and not killed.exists()


def test_a_number_taken_meanwhile_is_left_to_the_other_export(tmp_path, monkeypatch):
    write(tmp_path / "1", "the other's")
    numbers = iter([1, 2])
    monkeypatch.setattr(publishing, "next_version", lambda base: next(numbers))
    assert publish(tmp_path) == tmp_path / "2"
    assert (tmp_path / "1" / "saved_model.pb").read_text() == "the other's"


def test_a_directory_that_cannot_be_written_to_is_an_error(tmp_path):
    (tmp_path / "base").write_text("a file")
    with pytest.raises(OSError):
        publish(tmp_path / "base")


def test_a_published_version_has_the_usual_permissions(tmp_path):
    before = os.umask(0o027)
    try:
        with publishing.workspace(tmp_path) as place:
            publishing.make_read_only(write(place / "written"))
            version = publishing.publish(place / "written", tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(version.stat().st_mode) == 0o750
    assert stat.S_IMODE((version / "saved_model.pb").stat().st_mode) == 0o640


def test_checksums_notice_one_flipped_bit(tmp_path):
    file = write(tmp_path / "model") / "saved_model.pb"
    before = publishing.checksums(tmp_path / "model")
    assert before["saved_model.pb"]["size"] == 3
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + b"ew")
    assert publishing.checksums(tmp_path / "model") != before
