"""The command line: help without TensorFlow, exit codes, where messages go."""

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


def test_an_unknown_verb_fails():
    with pytest.raises(SystemExit) as stop:
        cli.main(["fly"])
    assert stop.value.code == 2


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
