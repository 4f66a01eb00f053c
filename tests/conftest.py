"""Set-up of every test process: quiet TensorFlow, oneDNN on, a CPU divided into two logical devices, seeds, memory."""

import contextlib
import ctypes
import gc
import os
import resource

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# On AMD CPUs CTranslate2 computes int8 with oneDNN, whose sums saturate where there is no VNNI; MKL's do not.
os.environ.setdefault("CT2_USE_MKL", "1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import pytest

SEED = 7
MEMORY_LIMIT = 2048
"""Megabytes that a test process may grow to."""


@pytest.fixture(scope="session", autouse=True)
def _two_logical_devices():
    """Lets MirroredStrategy run on two replicas; has to happen before TensorFlow makes its first tensor."""
    if os.environ["KERAS_BACKEND"] == "tensorflow":
        import tensorflow as tf

        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


@pytest.fixture(scope="module", autouse=True)
def _independent_modules():
    """Seeds what the fixtures of a module draw, and frees what its tests leave: no module depends on earlier ones."""
    import keras

    keras.utils.set_random_seed(SEED)
    yield
    keras.utils.clear_session()
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(autouse=True)
def _fixed_seed():
    import keras

    keras.utils.set_random_seed(SEED)


def _peak_megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


class MemoryGuard:
    """Reports each test process that grew beyond MEMORY_LIMIT, and the test during which it did."""

    def __init__(self):
        self.beyond_in = None
        self.lines = []

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid):
        if self.beyond_in is None and _peak_megabytes() > MEMORY_LIMIT:
            self.beyond_in = nodeid

    def pytest_sessionfinish(self, session):
        output = getattr(session.config, "workeroutput", None)
        line = self.beyond_in and f"{_peak_megabytes()} MB, beyond {MEMORY_LIMIT} MB in {self.beyond_in}"
        if output is not None:
            output["memory"] = line
        elif line:
            self.lines.append(f"this process: {line}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        if line := getattr(node, "workeroutput", {}).get("memory"):
            self.lines.append(f"worker {node.gateway.id}: {line}")

    def pytest_terminal_summary(self, terminalreporter):
        if self.lines:
            terminalreporter.section("memory")
            for line in self.lines:
                terminalreporter.write_line(line)


def pytest_configure(config):
    config.pluginmanager.register(MemoryGuard(), "memory_guard")
