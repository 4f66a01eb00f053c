"""`translate --engine beam`: the lines of `translate`, in shards that a second run reuses."""

import json
import os
import pathlib
import signal

import pytest

pytest.importorskip("apache_beam")
pytestmark = pytest.mark.slow

from exported_toy import exported_toy  # noqa: E402
from toy_workdir import toy_sentences  # noqa: E402

from tf_transformer._beam import BeamError, BeamJobs  # noqa: E402
from tf_transformer.decoding.on_beam import FileTranslation  # noqa: E402
from tf_transformer.pipelines import cli  # noqa: E402

IN_PROCESS = "direct_running_mode=in_memory"
BAD = [b"", b"   ", b"\xff\xfe bad", b"nul\0inside", b"\xef\xbb\xbfmark", b"x" * 5000, "\u2028 und".encode()]


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> pathlib.Path:
    """A file of 60 lines, some of them malformed, without a line feed at its end."""
    lines = [line.encode() for line in toy_sentences(60, 5)]
    for number, bad in enumerate(BAD):
        lines[8 * number + 1] = bad
    path = tmp_path_factory.mktemp("source") / "in.txt"
    path.write_bytes(b"\n".join(lines))
    return path


def command(source, output, *more: str) -> list[str]:
    model = str(exported_toy()[1])
    return ["translate", "--saved-model", model, "--input", str(source), "--output", str(output), *more]


def on_beam(source, output, *more: str) -> list[str]:
    return command(source, output, "--engine", "beam", "--shard-lines", "16", *more)


@pytest.mark.parametrize("options", [IN_PROCESS, "direct_running_mode=multi_processing direct_num_workers=2"])
@pytest.mark.parametrize("flags", [[], ["--no-segmentation"]])
def test_the_lines_are_those_of_the_plain_command(tmp_path, source, options, flags):
    if flags and options != IN_PROCESS:
        pytest.skip("one of the two is enough")
    plain = [] if not flags else ["--nbest", "1"]
    assert cli.main(command(source, tmp_path / "plain", *plain)) == 0
    assert cli.main(on_beam(source, tmp_path / "beam", "--beam-options", options, *flags)) == 0
    expected = (tmp_path / "plain").read_text("utf-8").split("\n")
    if flags:
        expected = [line.rpartition("\t")[2] for line in expected]
    assert (tmp_path / "beam").read_text("utf-8").split("\n") == expected
    assert len(expected) == 61
    shards = sorted((tmp_path / "beam.shards").glob("shard-*.txt"))
    assert len(shards) == 4
    assert b"".join(path.read_bytes() for path in shards) == (tmp_path / "beam").read_bytes()


def test_a_second_run_translates_only_what_is_missing_or_damaged(tmp_path, source, caplog):
    output, shards = tmp_path / "out", tmp_path / "out.shards"
    assert cli.main(on_beam(source, output, "--beam-options", IN_PROCESS)) == 0
    expected = output.read_bytes()
    output.unlink()
    (shards / "shard-00001.txt").unlink()
    with open(shards / "shard-00002.txt", "r+b") as file:
        file.truncate(10)
    (shards / "shard-00003.json").write_text("{")
    kept = (shards / "shard-00000.txt").stat().st_mtime_ns
    caplog.set_level("INFO")
    caplog.clear()
    assert cli.main(on_beam(source, output, "--beam-options", IN_PROCESS)) == 0
    assert output.read_bytes() == expected
    assert (shards / "shard-00000.txt").stat().st_mtime_ns == kept
    assert "60 lines in 4 shards, 1 of them from an earlier run" in caplog.text


def test_a_killed_worker_loses_no_finished_shard(tmp_path, source, monkeypatch):
    from tf_transformer.decoding.on_beam import _model_handler

    class KilledOnce(_model_handler.SavedModelHandler):
        """Ends its process when it begins a shard after another one was finished, once."""

        def run_inference(self, batch, model, inference_args=None):
            if not (mark := tmp_path / "killed").exists() and any(tmp_path.glob("out.shards/shard-*.json")):
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().run_inference(batch, model, inference_args)

    monkeypatch.setattr(_model_handler, "SavedModelHandler", KilledOnce)
    translation = FileTranslation(str(exported_toy()[1]), str(source), str(tmp_path / "out"), 8)
    with BeamJobs.open(tmp_path / "out", workers=2) as jobs:
        with pytest.raises(BeamError, match="a worker process ended"):
            translation.run(jobs)
        assert not (tmp_path / "out").exists()
        finished = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("out.shards/shard-*.json")}
        assert 1 <= len(finished) < 8
        found = translation.run(jobs)
    assert len(finished) <= found.reused < found.shards == 8
    assert {name: (tmp_path / "out.shards" / name).stat().st_mtime_ns for name in finished} == finished
    assert cli.main(command(source, tmp_path / "plain")) == 0
    assert (tmp_path / "out").read_bytes() == (tmp_path / "plain").read_bytes()


def test_shards_of_another_input_are_rejected(tmp_path, source, capsys):
    (tmp_path / "one").write_text("A line.\n")
    assert cli.main(on_beam(tmp_path / "one", tmp_path / "out", "--beam-options", IN_PROCESS)) == 0
    assert cli.main(on_beam(source, tmp_path / "out", "--beam-options", IN_PROCESS)) == 1
    assert "Received: other input_sha256" in capsys.readouterr().err


def test_an_empty_file_has_no_lines(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    assert cli.main(on_beam(tmp_path / "empty", tmp_path / "out", "--beam-options", IN_PROCESS)) == 0
    assert (tmp_path / "out").read_bytes() == b""


def test_a_line_that_the_model_fails_on_is_empty_and_counted(tmp_path, source, monkeypatch):
    import tensorflow as tf

    from tf_transformer.decoding import ExportedModel

    translate = ExportedModel.translate

    def failing(self, texts):
        if any(text.startswith(b"nul") for text in texts):
            raise tf.errors.InternalError(None, None, "broken")
        return translate(self, texts)

    model = str(exported_toy()[1])
    with BeamJobs.open(tmp_path / "a", IN_PROCESS) as jobs:
        FileTranslation(model, str(source), str(tmp_path / "a"), 16).run(jobs)
        monkeypatch.setattr(ExportedModel, "translate", failing)
        found = FileTranslation(model, str(source), str(tmp_path / "b"), 16).run(jobs)
    assert found.failed == [26] and found.lines == 60
    expected = (tmp_path / "a").read_text().split("\n")
    assert (tmp_path / "b").read_text().split("\n") == [*expected[:25], "", *expected[26:]]
    assert json.loads((tmp_path / "b.shards" / "shard-00001.json").read_text())["failed"] == [26]


@pytest.mark.parametrize("flag", [["--nbest", "2"], ["--beam-size", "2"], ["--documents", "a.txt"]])
def test_flags_of_the_search_are_rejected(tmp_path, source, capsys, flag):
    assert cli.main(on_beam(source, tmp_path / "out", *flag)) == 1
    assert "Expected no --" in capsys.readouterr().err


def test_the_input_is_a_file(tmp_path, capsys):
    assert cli.main(["translate", "--engine", "beam", "--saved-model", "m", "--output", str(tmp_path / "o")]) == 1
    assert "Expected --input with --engine beam" in capsys.readouterr().err
