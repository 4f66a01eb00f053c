"""Version directories: integers with a SavedModel, as TensorFlow Serving reads them."""

import pytest

from tf_transformer._model_versions import list_versions, newest_version, next_version, numbered_entries


def touch(path):
    path.mkdir(parents=True)
    (path / "saved_model.pb").write_bytes(b"")
    return path


def test_the_newest_version_has_the_highest_number(tmp_path):
    touch(tmp_path / "9")
    newest = touch(tmp_path / "10")
    touch(tmp_path / "11a")
    (tmp_path / "12").mkdir()
    assert newest_version(tmp_path) == newest
    assert newest_version(tmp_path / "9") == tmp_path / "9"
    assert list(list_versions(tmp_path)) == [9, 10]


def test_other_names_are_no_versions(tmp_path):
    for name in ("1.old", ".2", "-3", "٤", "four", str(2**63)):
        touch(tmp_path / name)
    assert list_versions(tmp_path) == {}
    assert next_version(tmp_path) == 1


def test_everything_with_a_number_takes_it(tmp_path):
    for name in ("2", "0010", "9"):
        (tmp_path / name).mkdir()
    (tmp_path / "11").write_text("a file")
    assert list(numbered_entries(tmp_path)) == [2, 9, 10, 11]
    assert next_version(tmp_path) == 12


def test_a_loop_of_links_is_no_version(tmp_path):
    good = touch(tmp_path / "1")
    (tmp_path / "2").symlink_to("2")
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "saved_model.pb").symlink_to("saved_model.pb")
    assert newest_version(tmp_path) == good
    assert next_version(tmp_path) == 4


def test_a_directory_without_a_saved_model_is_rejected(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ValueError, match=r"Expected a SavedModel.*Received: .*Give what `tf-transformer export"):
            newest_version(path)
    assert list_versions(tmp_path / "missing") == {}
