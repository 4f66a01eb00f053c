"""TensorFlow's start-up messages (oneDNN, CPU features, absl, missing GPU drivers), kept off the terminal.

TensorFlow writes them to file descriptor 2 while it is imported, before its own log level counts. A filter process
reads what is written there during the import, drops these messages and passes on everything else. It is a process
and not a thread, so that the last messages of an import that aborts are passed on, too.
"""

import contextlib
import glob
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import signal
import sys
import types
from collections.abc import Iterator, Sequence

LEVEL = "TF_CPP_MIN_LOG_LEVEL"

_MESSAGES = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\)"
    rb"|[IW]\d{4} [\d:.]+\s+\d+ \S+:\d+\]"  # absl: information and warnings
    rb"|\d{4}-\d\d-\d\d [\d:.]+: [IW] \S+:\d+\]"  # the same in TensorFlow's older format
    rb"|To enable the following instructions: .* rebuild TensorFlow"
    rb"|[E\d].* (Unable to register cu\w+ factory|computation placer already registered)"
)
_NO_GPU = re.compile(rb"[E\d].*failed call to cuInit")


def suppress_startup_messages() -> None:
    """Raise TensorFlow's log level, and filter its start-up messages when it is imported later on.

    Without a GPU even its error messages are noise (kernels that oneDNN lacks, drivers that are not there): what fails
    raises an exception. A low TF_CPP_MIN_LOG_LEVEL in the environment wins: messages that a user asks for are shown.
    """
    asked_for = os.environ.setdefault(LEVEL, "2" if _has_gpu() else "3") in ("0", "1")
    if asked_for or "tensorflow" in sys.modules or not hasattr(os, "fork"):
        return
    if not any(isinstance(finder, _FilteredImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _FilteredImport())


def is_startup_message(line: bytes) -> bool:
    """Return whether a line is a start-up message of TensorFlow; a failing GPU driver is none where there is a GPU."""
    return bool(_MESSAGES.match(line)) or (bool(_NO_GPU.match(line)) and not _has_gpu())


def _has_gpu() -> bool:
    return bool(glob.glob("/dev/nvidia[0-9]*")) or os.path.exists("/dev/dxg")


class _FilteredImport(importlib.abc.MetaPathFinder):
    """Finder that wraps the loader of `tensorflow` once."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _FilteredLoader(spec.loader)
        return spec


class _FilteredLoader(importlib.abc.Loader):
    """Loader that executes a module with filtered messages, and has TensorFlow look for GPUs meanwhile."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        with filtered_stderr():
            self._loader.exec_module(module)
            module.config.list_physical_devices("GPU")


@contextlib.contextmanager
def filtered_stderr() -> Iterator[None]:
    """Drop start-up messages from everything that is written to file descriptor 2 within the block."""
    try:
        original = os.dup(2)
    except OSError:  # there is none
        yield
        return
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(writing)
            _forward(reading, original)
        finally:
            os._exit(0)
    os.close(reading)
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield
    finally:
        if sys.stderr is not None:
            sys.stderr.flush()
        os.dup2(original, 2)
        os.close(original)
        os.waitpid(child, 0)


def _forward(source: int, target: int) -> None:
    """Copy lines that are no start-up messages until the other end is closed, by its process or with it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with open(source, "rb") as lines, open(target, "wb", buffering=0) as output:
        for line in lines:
            if not is_startup_message(line):
                output.write(line)
