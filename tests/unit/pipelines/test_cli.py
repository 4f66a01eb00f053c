"""The command line: help without TensorFlow, exit codes, where messages go."""

import os
import subprocess
import sys

import pytest

from tf_transformer.pipelines import cli


def test_help_lists_every_verb(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert all(verb in printed for verb in cli.VERBS)


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help(verb, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([verb, "--help"])
    assert stop.value.code == 0
    assert f"tf-transformer {verb}" in capsys.readouterr().out


def test_help_of_every_verb_does_not_import_tensorflow():
    code = (
        "import contextlib, io, sys\n"
        "from tf_transformer.pipelines import cli\n"
        "for verb in cli.VERBS:\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "        cli.main([verb, '--help'])\n"
        "print('tensorflow' in sys.modules, 'keras' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


def test_no_verb_prints_help_and_fails(capsys):
    assert cli.main([]) == 2
    assert "VERB" in capsys.readouterr().out


def test_an_unknown_verb_fails_with_the_closest(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["tranlate"])
    assert stop.value.code == 2
    assert "Received: tranlate. Did you mean translate?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["train", "--dta", "d", "--workdir", "w"], "Received: --dta. Did you mean --data?"),
        (["translate", "--beamsize=4"], "Received: --beamsize. Did you mean --beam-size?"),
        (["presets", "--xyz", "1"], "Received: --xyz.\n"),
    ],
)
def test_a_misspelt_flag_shows_the_usage_of_the_verb_and_the_closest_flag(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    assert stop.value.code == 2
    printed = capsys.readouterr()
    assert (
        printed.err.startswith(f"usage: tf-transformer {argv[0]} [-h]") and message in printed.err and not printed.out
    )


def test_what_follows_two_dashes_is_no_flag(capsys):
    with pytest.raises(SystemExit):
        cli.main(["inspect", "--json", "--help", "--", "--jsn"])
    assert "no flag" not in capsys.readouterr().err


def test_errors_of_the_operating_system_name_the_file_and_have_no_number(capsys, monkeypatch):
    def fail(args):
        raise PermissionError(13, "Permission denied", "/etc/shadow")

    monkeypatch.setattr("tf_transformer.pipelines.presets.run", fail)
    assert cli.main(["presets"]) == 1
    assert capsys.readouterr().err == "tf-transformer presets: /etc/shadow: Permission denied\n"


def test_a_missing_input_names_what_was_expected(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["translate", "--workdir", "run", "--input", "missing.txt"]) == 1
    message = "Expected a text file. Received: missing.txt (No such file or directory). The path is relative to"
    assert f"{message} {tmp_path}." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "message"),
    [("models/opus-mt-zh-en", "`--from hf:Helsinki-NLP/opus-mt-zh-en`"), ("model.npz", "`--from hf:OWNER/NAME`")],
)
def test_a_missing_model_names_where_to_get_one(capsys, tmp_path, monkeypatch, path, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["import", "--from", path, "--workdir", "run"]) == 1
    error = capsys.readouterr().err
    assert f"Received: {path}, which does not exist." in error and message in error


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_reader_that_has_gone_ends_any_verb_quietly(flags):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "tf_transformer.pipelines.cli", "presets", *flags]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_another_broken_pipe_is_an_error(capsys, monkeypatch):
    def fail(args):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("tf_transformer.pipelines.presets.run", fail)
    assert cli.main(["presets"]) == 1
    assert "Broken pipe" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["translate", "Hello world", "--workdir", "run"], "'Hello world'. Give text by standard input or --input."),
        (["presets", "a", "-b"], "Received: 'a', '-b'.\n"),
        (["inspect", "run", "other"], "Received: 'other'.\n"),
    ],
)
def test_extra_words_are_rejected_with_the_usage_of_the_verb(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.startswith(f"usage: tf-transformer {argv[0]} [-h]")
    assert "Expected only the flags and arguments listed above. Received: " in error and message in error


def test_presets_go_to_standard_output(capsys):
    assert cli.main(["presets"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1].startswith("base") and not printed.err


def test_errors_are_one_line_on_standard_error(capsys, monkeypatch):
    def fail(args):
        raise ValueError("expected a, got b: do c.")

    monkeypatch.setattr("tf_transformer.pipelines.presets.run", fail)
    assert cli.main(["presets"]) == 1
    printed = capsys.readouterr()
    assert printed.err == "tf-transformer presets: expected a, got b: do c.\n" and not printed.out


def test_an_interrupt_has_its_own_code(capsys, monkeypatch):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr("tf_transformer.pipelines.presets.run", interrupted)
    assert cli.main(["presets"]) == 130
