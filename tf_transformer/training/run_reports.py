"""Numbers of the steps, gathered into lines of the log and of the terminal."""

from tf_transformer.evaluation.scores import Score
from tf_transformer.training.counters import Counters
from tf_transformer.training.progress_line import ProgressLine
from tf_transformer.training.run_log import RunLog
from tf_transformer.training.train_step import StepReport
from tf_transformer.training.validation import ValidationLoss, perplexity


class RunReports:
    """Adds up what the steps report and tells it; a worker that is not the chief tells nothing.

    Args:
        log: None for a worker that is not the chief.
        progress: None likewise.
    """

    def __init__(self, log: RunLog | None, progress: ProgressLine | None):
        self._log, self._progress = log, progress
        self._clear()

    def steps(self, counters: Counters, report: StepReport, seconds: float) -> None:
        """Takes in the reports (n,) of the steps of one call."""
        self._count += len(report.loss)
        self._seconds += seconds
        self._loss += float(report.loss.sum())
        self._likelihood += float(report.negative_log_likelihood.sum())
        self._tokens += float(report.tokens.sum())
        self._last = report
        if self._progress is not None:
            self._progress.update(counters.step, self._loss / max(self._tokens, 1.0), self._rate)
            if report.skipped.any():
                self._progress.say(
                    f"step {counters.step}: {int(report.skipped.sum())} skipped, loss or gradient not finite "
                    f"({counters.skipped} so far; loss scale {counters.loss_scale:g})"
                )

    def flush(self, counters: Counters) -> None:
        """Writes a line of the log about the steps since the last one."""
        if self._log is not None and self._count:
            tokens = max(self._tokens, 1.0)
            self._log.event(
                "train",
                counters.step,
                steps=self._count,
                loss=self._loss / tokens if self._tokens else None,
                perplexity=perplexity(self._likelihood / tokens) if self._tokens else None,
                learning_rate=float(self._last.learning_rate[-1]),
                gradient_norm=float(self._last.gradient_norm[-1]),
                tokens=int(self._tokens),
                tokens_per_second=round(self._rate, 1),
                skipped=counters.skipped,
                loss_scale=counters.loss_scale,
            )
        self._clear()

    def validation(self, step: int, result: ValidationLoss, better: bool) -> None:
        if self._log is None:
            return
        self._log.event("validation", step, loss=result.loss, perplexity=result.perplexity, tokens=result.tokens)
        self._progress.say(
            f"step {step}: validation perplexity {result.perplexity:.3f}, smoothed loss {result.loss:.3f}"
            + (" (best)" if better else "")
        )

    def sample(self, step: int, score: Score, rows: list[tuple[str, str, str]]) -> None:
        if self._log is None:
            return
        self._log.event("sample", step, bleu=score.value, signature=score.signature, translations=rows)
        self._log.text("sample/translations", step, rows, ("source", "reference", "translation"))
        self._progress.say(f"step {step}: {score.name} {score.value:.2f} of a sample, greedy ({score.signature})")
        self._progress.say("\n".join(f"    {source}\n  → {translation}" for source, _, translation in rows[:2]))

    @property
    def _rate(self) -> float:
        return self._tokens / max(self._seconds, 1e-9)

    def _clear(self) -> None:
        self._count, self._seconds, self._loss, self._likelihood, self._tokens = 0, 0.0, 0.0, 0.0, 0.0
        self._last: StepReport | None = None
