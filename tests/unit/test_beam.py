"""Beam pipelines: their options, their errors, and the message without Apache Beam."""

import sys

import pytest

from tf_transformer._beam import BeamError, BeamJobs, _reason, is_local, join, pipeline_flags
from tf_transformer.pipelines import cli


def test_without_a_runner_the_direct_one_has_several_processes():
    flags = pipeline_flags("", workers=3)
    assert flags[:3] == ("--runner=DirectRunner", "--direct_running_mode=multi_processing", "--direct_num_workers=3")
    assert "--direct_running_mode=in_memory" in pipeline_flags("", workers=1)


def test_given_options_are_kept_with_or_without_dashes():
    flags = pipeline_flags("direct_num_workers=5 --direct_running_mode=multi_threading", workers=3)
    assert flags[:2] == ("--direct_num_workers=5", "--direct_running_mode=multi_threading")
    assert "--direct_num_workers=3" not in flags
    assert pipeline_flags("runner=FlinkRunner parallelism=8", workers=3) == ("--runner=FlinkRunner", "--parallelism=8")


@pytest.mark.parametrize("command", [["prepare", "--data", "phrasebook"], ["translate", "--saved-model", "m"]])
def test_a_missing_beam_is_named(monkeypatch, tmp_path, capsys, command):
    for name in [name for name in sys.modules if name.split(".")[0] == "apache_beam"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    given = ["--input", __file__] if command[0] == "translate" else []
    assert cli.main([*command, *given, "--engine", "beam", "--output", str(tmp_path / "out")]) == 1
    assert "pip install 'tf_transformer[beam]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    with pytest.raises(BeamError, match="Expected Apache Beam"), BeamJobs.open(tmp_path / "out"):
        pass


@pytest.mark.parametrize(
    "flags", [["--beam-options", "a=b"], ["--workers", "2"], ["--shard-lines", "5"]], ids=lambda flags: flags[0]
)
def test_flags_of_beam_need_its_engine(capsys, flags):
    assert cli.main(["translate", "--saved-model", "m", *flags]) == 1
    assert f"Expected --engine beam with {flags[0]}" in capsys.readouterr().err


def test_the_reason_of_a_failed_pipeline_is_the_error_of_the_worker():
    text = (
        'Traceback (most recent call last):\n  File "x.py", line 1, in f\nValueError: a.en: expected 3 pairs.\n\n'
        "During handling of the above exception, another exception occurred:\n\nRuntimeError: ValueError: a.en: "
        "expected 3 pairs. [while running 'clean-ptransform-7']\n"
    )
    assert _reason(RuntimeError(text)) == "a.en: expected 3 pairs."
    lost = RuntimeError("Channel closed prematurely.")
    assert "a worker process ended" in _reason(lost)
    assert _reason(RuntimeError("")) == "RuntimeError"


def test_addresses():
    assert is_local("/data/a") and is_local("a") and not is_local("gs://bucket/a")
    assert join("gs://bucket/a/", "b", "c") == "gs://bucket/a/b/c"
