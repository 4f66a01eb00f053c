"""Progress elsewhere than on a terminal: plain lines with count, rate and time left, not too many of them."""

from tf_transformer import _progress as progress
from tf_transformer._progress import Progress


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
        "encoding: 500 pairs, 20/s in 25.0 s",
    ]


def test_an_unknown_total(monkeypatch, caplog):
    caplog.set_level("INFO")
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = Progress("reading", None)
    now[0] = 20.0
    shown.update(4000)
    assert caplog.messages == ["reading: 4,000 pairs, 200/s"]
