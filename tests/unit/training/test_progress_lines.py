"""Progress of a run: TensorBoard's curves and texts, and the line on a terminal."""

import io
import signal
import sys

import pytest
import tensorflow as tf

from tf_transformer._progress import Progress
from tf_transformer.training._process import StopRequest
from tf_transformer.training._reporting import RunLog


def logged(directory) -> dict[str, tuple[int, object]]:
    """Tag → (step, value) of all that TensorBoard would show."""
    (file,) = (directory / "tensorboard").iterdir()
    return {
        value.tag: (event.step, tf.make_ndarray(value.tensor).item())
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
    }


def test_numbers_are_curves_of_their_event_and_translations_are_a_table(tmp_path):
    log = RunLog(tmp_path)
    log.event("train", 20, loss=1.5, steps=20)
    log.event("sample", 21, bleu=30.5, signature="tok:13a", translations=[["a|b", "c", "d"]])
    log.text("sample/translations", 21, [("a|b", "c", "d")], ("source", "reference", "translation"))
    log.close()
    shown = logged(tmp_path)
    assert shown.keys() == {"train/loss", "train/steps", "sample/bleu", "sample/translations"}
    assert (shown["train/loss"], shown["sample/bleu"]) == ((20, 1.5), (21, 30.5))
    assert shown["sample/translations"][1].decode().splitlines() == [
        "| source | reference | translation |",
        "| --- | --- | --- |",
        "| a\\|b | c | d |",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_one_line_that_a_resumed_run_continues(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    progress = Progress("training", 11, "steps", initial=3)
    progress.update(4, "loss 1.250, 4,321 tokens/s")
    progress.write("step 7: validation perplexity 5.000")
    progress.close()
    shown = sys.stderr.getvalue()
    assert "| 3/11 [" in shown and "| 7/11 [" in shown and "loss 1.250, 4,321 tokens/s" in shown
    assert "\rstep 7: validation perplexity 5.000\n" in shown
    assert shown.count("\n") == 2


def test_the_first_interrupt_is_a_request_and_the_second_does_not_wait():
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
