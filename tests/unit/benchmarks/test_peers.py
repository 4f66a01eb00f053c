"""The peers of the benchmarks, with stand-ins for their virtual environments."""

import pathlib
import stat

import pytest

from benchmarks.peers import running, setup

STAND_IN = """#!/bin/sh
echo "a message that is not JSON"
case "$2" in
  benchmarks.peers.ctranslate2) peers="ctranslate2_float32 ctranslate2_int8" ;;
  benchmarks.peers.pytorch) peers="pytorch" ;;
  *) echo "no such script: $2" >&2; exit 3 ;;
esac
for peer in $peers; do
  echo "{\\"peer\\": \\"$peer\\", \\"kind\\": \\"$4\\", \\"tokens_per_second\\": 20.5, \\"flags\\": \\"$5\\"}"
done
"""


def install(environments: pathlib.Path, name: str) -> None:
    python = environments / name / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(STAND_IN)
    python.chmod(python.stat().st_mode | stat.S_IXUSR)


def test_installed_peers_are_measured_and_others_left_out(tmp_path, capsys):
    install(tmp_path, "torch")
    speeds = running.measure_peers("decode", tmp_path, {"batch": 2})
    assert speeds == {"ctranslate2_float32": 20.5, "ctranslate2_int8": 20.5, "pytorch": 20.5}
    assert "opennmt_tf: not installed, left out" in capsys.readouterr().err
    assert running.measure_peers("train", tmp_path, {"batch": 2}) == {"pytorch": 20.5}


def test_scripts_can_be_chosen_and_ctranslate2_can_be_that_of_this_environment(tmp_path, monkeypatch):
    install(tmp_path, "torch")
    assert running.measure_peers("decode", tmp_path, {}, only=("pytorch",)) == {"pytorch": 20.5}
    monkeypatch.setattr(running.sys, "executable", str(tmp_path / "torch" / "bin" / "python"))
    found = running.measure_peers("decode", None, {}, only=("ctranslate2",), here=True)
    assert found == {"ctranslate2_float32": 20.5, "ctranslate2_int8": 20.5}


def test_without_environments_there_are_no_peers():
    assert running.measure_peers("decode", None, {}) == {}


def test_a_peer_that_fails_is_an_error_with_its_message(tmp_path):
    install(tmp_path, "opennmt")
    with pytest.raises(SystemExit, match="no such script"):
        running.measure_peers("train", tmp_path, {})


def test_every_script_has_an_environment_and_exists():
    for scripts in running.SCRIPTS.values():
        for environment, script, peers in scripts:
            assert environment in setup.REQUIREMENTS and peers
            assert (running.ROOT / "benchmarks" / "peers" / f"{script}.py").is_file()


def test_complete_environments_are_kept(tmp_path, capsys):
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / setup.COMPLETE).touch()
    setup.create(folder, (("a-package-that-does-not-exist",),))
    assert "complete" in capsys.readouterr().err and list(folder.iterdir()) == [folder / setup.COMPLETE]
