"""What a run tells about itself: a file of JSON lines, and TensorBoard."""

import json
import pathlib
import time

import tensorflow as tf

NAME = "log.jsonl"


class RunLog:
    """Writes events of a run under a directory: `log.jsonl`, and `tensorboard/` for their numbers and texts.

    A run that goes on from a checkpoint takes back what it had written after it, so the file reads as one run.

    Args:
        directory: WORKDIR/logs.
        step: that the run begins or goes on at.
    """

    def __init__(self, directory: pathlib.Path, step: int = 0):
        directory.mkdir(parents=True, exist_ok=True)
        self._file = directory / NAME
        _forget_after(self._file, step)
        self._writer = tf.summary.create_file_writer(str(directory / "tensorboard"))

    def event(self, kind: str, step: int, **values) -> None:
        """Writes a line {"event": kind, "step": …, "time": …, …}, and its numbers as curves `kind/name`."""
        line = {"event": kind, "step": step, "time": round(time.time(), 3), **values}
        with open(self._file, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        with self._writer.as_default(step=step):
            for name, value in values.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    tf.summary.scalar(f"{kind}/{name}", value)

    def text(self, name: str, step: int, rows: list[tuple[str, ...]], heading: tuple[str, ...]) -> None:
        """Writes a table of texts to TensorBoard."""
        table = [heading, tuple("---" for _ in heading), *rows]
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
        with self._writer.as_default(step=step):
            tf.summary.text(name, "\n".join(lines))

    def close(self) -> None:
        self._writer.close()


def read_log(directory: pathlib.Path) -> list[dict]:
    """The events of a run, in order; a line that a kill cut off is left out."""
    file = directory / NAME
    events = []
    for line in file.read_text(encoding="utf-8").split("\n") if file.is_file() else ():
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return events


def _forget_after(file: pathlib.Path, step: int) -> None:
    kept = [event for event in read_log(file.parent) if event["step"] <= step]
    if file.is_file():
        beside = file.with_name(f".{file.name}.writing")
        beside.write_text("".join(json.dumps(event, ensure_ascii=False) + "\n" for event in kept), encoding="utf-8")
        beside.replace(file)
