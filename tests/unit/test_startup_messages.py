"""TensorFlow's start-up messages are dropped, and nothing else is."""

import os
import subprocess
import sys

import pytest

from tf_transformer import _startup_messages
from tf_transformer._startup_messages import is_startup_message

INIT = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
ONEDNN = "I0000 00:00:1794962857.006143   32668 port.cc:153] oneDNN custom operations are on. You may see …"
CPU = "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the …"
CUINIT = "E0000 00:00:1794962860.363082   32668 cuda_platform.cc:52] failed call to cuInit: UNKNOWN ERROR (303)"
OLD = "2024-01-01 10:00:00.123456: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on."
FACTORY = "E0000 00:00:1794962857.1   1 cuda_dnn.cc:8579] Unable to register cuDNN factory: Attempting to register …"
REAL = [
    "E0000 00:00:1794962860.363082   32668 pool.cc:52] Out of memory while trying to allocate 100 bytes",
    "F0000 00:00:1794962860.363082   32668 guard.cc:52] The TensorFlow library was compiled to use AVX instructions",
    "Traceback (most recent call last):",
    "ImportError: libfoo.so: cannot open shared object file",
    "Loading the weights of run/checkpoints/best.",
]


@pytest.mark.parametrize("line", [INIT, ONEDNN, CPU, OLD, FACTORY])
def test_start_up_messages(line):
    assert is_startup_message(f"{line}\n".encode())


@pytest.mark.parametrize("line", REAL)
def test_other_lines(line):
    assert not is_startup_message(f"{line}\n".encode())


@pytest.mark.parametrize("gpu", [False, True])
def test_a_gpu_that_does_not_start_is_reported_where_there_is_one(monkeypatch, gpu):
    monkeypatch.setattr(_startup_messages, "_has_gpu", lambda: gpu)
    assert is_startup_message(f"{CUINIT}\n".encode()) != gpu


def run(code, **environment):
    """Runs Python code with a `tensorflow` of our own; returns the exit code and what was written to stderr."""
    program = f"from tf_transformer._startup_messages import suppress_startup_messages as quiet\n{code}"
    variables = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"} | environment
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=variables)
    return done.returncode, done.stderr.splitlines()


@pytest.fixture
def tensorflow(tmp_path, monkeypatch):
    """Puts a package called tensorflow first on the path, which writes to file descriptor 2 as the real one does."""

    def write(body=""):
        lines = "\n".join([INIT, ONEDNN, "a real warning"])
        listing = "class config:\n    list_physical_devices = lambda kind: None\n"
        (tmp_path / "tensorflow.py").write_text(f"import os\nos.write(2, {lines!r}.encode() + b'\\n')\n{listing}{body}")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return write


def test_messages_of_the_import_are_dropped_and_others_kept(tensorflow):
    tensorflow()
    after = "import sys; print('after', file=sys.stderr); import os; print(tensorflow.__spec__.loader, os.getpid())"
    assert run(f"quiet()\nimport tensorflow\n{after}") == (0, ["a real warning", "after"])


def test_an_import_that_fails_keeps_its_traceback(tensorflow):
    tensorflow("raise ImportError('libcuda is broken')")
    code, lines = run("quiet()\nimport tensorflow")
    assert code == 1 and lines[0] == "a real warning" and lines[-1] == "ImportError: libcuda is broken"


def test_the_last_words_of_an_import_that_aborts_are_passed_on(tensorflow):
    tensorflow("os.write(2, b'F0000 compiled to use AVX')\nos.abort()")
    code, lines = run("quiet()\nimport tensorflow")
    assert code < 0 and lines[:2] == ["a real warning", "F0000 compiled to use AVX"]


def test_messages_that_the_user_asks_for_are_shown(tensorflow):
    tensorflow()
    assert run("quiet()\nimport tensorflow", TF_CPP_MIN_LOG_LEVEL="0")[1] == [INIT, ONEDNN, "a real warning"]
    assert run("quiet()\nquiet()\nimport tensorflow", TF_CPP_MIN_LOG_LEVEL="3")[1] == ["a real warning"]
    assert run("import tensorflow")[1] == [INIT, ONEDNN, "a real warning"]


def test_a_process_without_standard_error(tmp_path, monkeypatch):
    (tmp_path / "tensorflow.py").write_text("class config:\n    list_physical_devices = lambda kind: None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert run("import os\nos.close(2)\nquiet()\nimport tensorflow, sys\nsys.exit(7)")[0] == 7
