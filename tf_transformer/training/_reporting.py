"""Reports of a run: JSON lines, TensorBoard, and progress on the terminal."""

import json
import pathlib
import time
from collections.abc import Sequence

import tensorflow as tf

from tf_transformer._files import write_text
from tf_transformer._progress import Progress
from tf_transformer.evaluation import Score
from tf_transformer.training._train_step import Counters, StepReport
from tf_transformer.training._validation import ValidationLoss, perplexity

NAME = "log.jsonl"


class RunLog:
    """Event log of a run: `log.jsonl`, and `tensorboard/` for numbers and texts.

    When a run resumes from a checkpoint, events of later steps are removed, so that the file reads as one run.

    Args:
        directory: WORKDIR/logs.
        step: step at which the run starts or resumes.
    """

    def __init__(self, directory: pathlib.Path, step: int = 0):
        directory.mkdir(parents=True, exist_ok=True)
        self._file = directory / NAME
        _forget_after(self._file, step)
        self._writer = tf.summary.create_file_writer(str(directory / "tensorboard"))

    def event(self, kind: str, step: int, **values: object) -> None:
        """Write a line {"event": kind, "step": …, "time": …, …}, and its numbers as curves `kind/name`."""
        line = {"event": kind, "step": step, "time": round(time.time(), 3), **values}
        with open(self._file, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        with self._writer.as_default(step=step):
            for name, value in values.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    tf.summary.scalar(f"{kind}/{name}", value)

    def text(self, name: str, step: int, rows: Sequence[tuple[str, ...]], heading: tuple[str, ...]) -> None:
        """Write a table of texts to TensorBoard."""
        table = [heading, tuple("---" for _ in heading), *rows]
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
        with self._writer.as_default(step=step):
            tf.summary.text(name, "\n".join(lines))

    def close(self) -> None:
        self._writer.close()


def read_log(directory: pathlib.Path) -> list[dict]:
    """The events of a run, in order; a truncated last line is skipped."""
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
        write_text(file, "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in kept))


class RunReports:
    """Sums of the steps' reports, written to the log and the terminal; only the chief writes.

    Args:
        log: None for a worker that is not the chief.
        progress: None for a worker that is not the chief.
    """

    def __init__(self, log: RunLog | None, progress: Progress | None):
        self._log, self._progress = log, progress
        self._clear()

    def steps(self, counters: Counters, report: StepReport, seconds: float) -> None:
        """Add the reports (n,) of the steps of one call."""
        self._count += len(report.loss)
        self._seconds += seconds
        self._loss += float(report.loss.sum())
        self._likelihood += float(report.negative_log_likelihood.sum())
        self._tokens += float(report.tokens.sum())
        self._learning_rate, self._gradient_norm = report.learning_rate[-1], report.gradient_norm[-1]
        if self._progress is not None:
            loss = self._loss / max(self._tokens, 1.0)
            self._progress.update(counters.step - self._progress.done, f"loss {loss:.3f}, {self._rate:,.0f} tokens/s")
            if report.skipped.any():
                self._progress.write(
                    f"step {counters.step}: {int(report.skipped.sum())} skipped, loss or gradient not finite "
                    f"({counters.skipped} so far; loss scale {counters.loss_scale:g})"
                )

    def flush(self, counters: Counters) -> None:
        """Write one line of the log about the steps since the previous one."""
        if self._log is not None and self._count:
            tokens = max(self._tokens, 1.0)
            self._log.event(
                "train",
                counters.step,
                steps=self._count,
                loss=self._loss / tokens if self._tokens else None,
                perplexity=perplexity(self._likelihood / tokens) if self._tokens else None,
                learning_rate=float(self._learning_rate),
                gradient_norm=float(self._gradient_norm),
                tokens=int(self._tokens),
                tokens_per_second=round(self._rate, 1),
                skipped=counters.skipped,
                loss_scale=counters.loss_scale,
            )
        self._clear()

    def validation(self, step: int, result: ValidationLoss, better: bool) -> None:
        if self._log is None or self._progress is None:
            return
        self._log.event("validation", step, loss=result.loss, perplexity=result.perplexity, tokens=result.tokens)
        self._progress.write(
            f"step {step}: validation perplexity {result.perplexity:.3f}, smoothed loss {result.loss:.3f}"
            + (" (best)" if better else "")
        )

    def sample(self, step: int, score: Score, rows: list[tuple[str, str, str]]) -> None:
        if self._log is None or self._progress is None:
            return
        self._log.event("sample", step, bleu=score.value, signature=score.signature, translations=rows)
        self._log.text("sample/translations", step, rows, ("source", "reference", "translation"))
        self._progress.write(f"step {step}: {score.name} {score.value:.2f} on a sample, greedy ({score.signature})")
        self._progress.write("\n".join(f"    {source}\n  → {translation}" for source, _, translation in rows[:2]))

    @property
    def _rate(self) -> float:
        return self._tokens / max(self._seconds, 1e-9)

    def _clear(self) -> None:
        self._count, self._seconds, self._loss, self._likelihood, self._tokens = 0, 0.0, 0.0, 0.0, 0.0
        self._learning_rate = self._gradient_norm = 0.0
