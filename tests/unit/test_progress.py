"""Progress elsewhere than on a terminal: plain lines with count, rate and time left, not too many of them."""

import pytest

from tf_transformer import _progress as progress
from tf_transformer._progress import Progress, duration


def test_plain_lines(monkeypatch, caplog):
    caplog.set_level("INFO")
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress("encoding", 1000) as shown:
        for _ in range(25):
            now[0] += 1.0
            shown.update(20)
    assert caplog.messages == [
        "encoding: 200 of 1,000 pairs, 20/s, 40 s left",
        "encoding: 400 of 1,000 pairs, 20/s, 30 s left",
        "encoding: 500 pairs, 20/s in 25 s",
    ]


def test_an_unknown_total(monkeypatch, caplog):
    caplog.set_level("INFO")
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = Progress("reading", None)
    now[0] = 20.0
    shown.update(4000)
    assert caplog.messages == ["reading: 4,000 pairs, 200/s"]


def test_a_resumed_run_counts_from_where_it_is_and_shows_a_note(monkeypatch, caplog):
    caplog.set_level("INFO")
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = Progress("training", 1000, "steps", initial=400)
    now[0] = 20.0
    shown.update(100, "loss 1.250, 4,321 tokens/s")
    shown.write("step 500: validation perplexity 5.000")
    shown.close()
    assert shown.done == 500
    assert caplog.messages == [
        "training: 500 of 1,000 steps, loss 1.250, 4,321 tokens/s, 1 min 40 s left",
        "step 500: validation perplexity 5.000",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.44, "0.4 s"), (45, "45 s"), (59.7, "1 min 00 s"), (200, "3 min 20 s"), (3720, "1 h 02 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text
