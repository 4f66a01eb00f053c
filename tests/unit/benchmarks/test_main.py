"""`python -m benchmarks`: names come before options, which go to each benchmark as they are."""

import subprocess

from benchmarks import __main__ as runner


def test_options_and_their_values_are_no_names(monkeypatch):
    calls = []

    def run(command, cwd):
        calls.append(command[2:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(runner.subprocess, "run", run)
    assert runner.main(["decoding", "training", "--peer-envs", "build/peers", "--json"]) == 0
    assert calls == [
        [f"benchmarks.{name}", "--peer-envs", "build/peers", "--json"] for name in ("decoding", "training")
    ]


def test_a_benchmark_that_does_not_exist_is_reported(capsys):
    assert runner.main(["decodign", "--json"]) == 2
    assert "There is no benchmark decodign. Benchmarks: alignment, " in capsys.readouterr().err
