"""A function in a process of its own: results, progress, errors, and its end."""

import os
import threading
import types

import pytest

from tf_transformer.distillation._child_process import StoppedError, run_in_child

GOING_ON = types.SimpleNamespace(requested=False)


def count_to(number, report):
    for _ in range(number):
        report(1)
    return os.getpid()


def fail(message, report):
    raise ValueError(message)


def fail_unexpectedly(report):
    raise KeyError("a mistake")


def exit_at_once(report):
    os._exit(7)


def wait_for_ever(report):
    report(1)
    threading.Event().wait()


def test_results_and_progress_come_from_another_process():
    counts = []
    assert run_in_child(count_to, 5, stop=GOING_ON, progress=counts.append) != os.getpid()
    assert counts == [1] * 5


def test_errors_are_raised_here():
    with pytest.raises(ValueError, match="expected a teacher"):
        run_in_child(fail, "expected a teacher", stop=GOING_ON)
    with pytest.raises(RuntimeError, match=r"fail_unexpectedly[\s\S]*KeyError: 'a mistake'"):
        run_in_child(fail_unexpectedly, stop=GOING_ON)


def test_a_process_that_dies_is_an_error():
    with pytest.raises(ValueError, match="Received: exit code 7"):
        run_in_child(exit_at_once, stop=GOING_ON)


def test_a_stop_ends_the_process():
    stop = types.SimpleNamespace(requested=False)

    def request(count):
        stop.requested = True

    with pytest.raises(StoppedError):
        run_in_child(wait_for_ever, stop=stop, progress=request)
