"""The table and figure of an ablation next to the paper's numbers, and the result of each row."""

import dataclasses
import json
import os
import pathlib
import statistics
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tf_transformer._files import write_json
from tf_transformer.analysis.ablation._rows import PAPER, AblationOptions

RESULT = "ablation.json"


@dataclasses.dataclass(frozen=True)
class RowResult:
    """One finished row of the table.

    Args:
        row: the preset.
        steps: of training.
        ended: why it ended there: "finished" or "early stopping".
        split: it was scored on.
        parameters: weights of the model as it was trained.
        perplexity: per token of the references.
        sacrebleu, chrf, compound_split_bleu: corpus scores; the last is the measure of the paper.
        signature: sacreBLEU's.
        sentences: of the set it was scored on.
        training_seconds: wall time of the steps of training, over all its starts, without validation and saving.
        scoring_seconds: that translating the set took.
        seed: of the training.
        averaged: whether the average of the last checkpoints was scored.
    """

    row: str
    steps: int
    ended: str
    split: str
    parameters: int
    perplexity: float
    sacrebleu: float
    chrf: float
    compound_split_bleu: float
    signature: str
    sentences: int
    training_seconds: float
    scoring_seconds: float
    seed: int = 1
    averaged: bool = False

    def save(self, directory: str | os.PathLike) -> None:
        """Write the result into the row's work directory."""
        write_json(pathlib.Path(directory) / RESULT, dataclasses.asdict(self))

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "RowResult | None":
        """The result of a row's work directory, or None where the row is not finished."""
        file = pathlib.Path(directory) / RESULT
        return cls(**json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


_HEADING = (
    "row", "change in the paper", "parameters", "perplexity", "sacreBLEU", "tokenized compound-split BLEU",
    "minutes", "paper: perplexity", "paper: tokenized compound-split BLEU", "paper: parameters",
)  # fmt: skip


_PAPERS_COLUMNS = (
    "The paper's columns are English-German, newstest2013, at full size. Neither perplexities of different "
    "vocabularies nor scores on other test sets can be compared as numbers: compare how rows differ from `base` "
    "here, and there."
)


@dataclasses.dataclass(frozen=True)
class Setting:
    """The circumstances of an ablation, without which its numbers mean nothing.

    Args:
        command: the command line that makes the table.
        data: a description of the data: its name, languages, training pairs.
        split: that was scored.
        options: what all rows have in common.
        hardware: it ran on.
        versions: of the packages, by name.
        rows: heading of the table.
    """

    command: str
    data: str
    split: str
    options: AblationOptions
    hardware: str
    versions: dict[str, str]
    rows: str = "The rows of Table 3"

    @property
    def title(self) -> str:
        scaled = self.options.scale != 1 or self.options.depth_scale != 1
        return f"{self.rows}, scaled down" if scaled else self.rows


def markdown(setting: Setting, results: Sequence[RowResult]) -> str:
    """The table as a page of Markdown, with what it takes to read and to repeat it."""
    rows = by_row(results)
    table = [_HEADING, ("---", "---", *["---:"] * (len(_HEADING) - 2)), *map(_cells, rows.values())]
    note = ["", _PAPERS_COLUMNS]
    if not PAPER.keys() & rows.keys():
        table, note = [(row[0], *row[2:7]) for row in table], []
    lines = [f"# {setting.title}", "", *_facts(setting, results), ""]
    lines += ["| " + " | ".join(row) + " |" for row in table] + note
    return "\n".join(lines) + "\n"


def by_row(results: Sequence[RowResult]) -> dict[str, list[RowResult]]:
    """The results of each row, one for each seed."""
    rows: dict[str, list[RowResult]] = {}
    for result in results:
        rows.setdefault(result.row, []).append(result)
    return rows


def as_json(setting: Setting, results: Sequence[RowResult]) -> dict:
    """The table for machines: the circumstances, and for each row its figures and the paper's."""
    rows = []
    for result in results:
        paper = PAPER.get(result.row)
        rows.append(dataclasses.asdict(result) | {"paper": dataclasses.asdict(paper) if paper else None})
    return dataclasses.asdict(setting) | {"title": setting.title, "rows": rows}


def _facts(setting: Setting, results: Sequence[RowResult]) -> list[str]:
    options = setting.options
    steps = "each preset's own steps" if options.steps is None else f"{options.steps:,} steps per row"
    steps = steps if options.minutes is None else f"{options.minutes:g} minutes per row"
    sizes = f"widths times {options.scale:g}, layers times {options.depth_scale:g}"
    packages = ", ".join(f"{name} {version}" for name, version in setting.versions.items())
    facts = [
        f"- Data: {setting.data}; scored on {setting.split} ({results[0].sentences:,} sentences).",
        f"- Training: {steps}, {sizes}" + "".join(f", `{one}`" for one in options.settings) + ".",
        "- Scored: the average of the last checkpoints."
        if options.averaged
        else "- Scored as the paper's Table 3: the last checkpoint, no averaging.",
        f"- sacreBLEU signature: `{results[0].signature}`.",
        f"- Hardware: {setting.hardware}. {packages}.",
        f"- Command: `{setting.command}`",
    ]
    if options.seeds:
        seeds = ", ".join(map(str, options.seeds))
        facts.insert(3, f"- Mean ± standard deviation over the seeds {seeds}, as far as they are finished.")
    return facts


def _cells(results: Sequence[RowResult]) -> tuple[str, ...]:
    result, paper = results[0], PAPER.get(results[0].row)
    theirs = ["", "", ""]
    if paper:
        theirs = [f"{paper.perplexity:.2f}", f"{paper.bleu:.1f}", f"{paper.parameters}M" if paper.parameters else ""]
    return (
        result.row,
        paper.change if paper else "",
        f"{result.parameters / 1e6:.2f}M",
        _mean([each.perplexity for each in results], 3),
        _mean([each.sacrebleu for each in results], 2),
        _mean([each.compound_split_bleu for each in results], 2),
        f"{statistics.mean(each.training_seconds for each in results) / 60:.1f}",
        *theirs,
    )


def _mean(values: Sequence[float], digits: int) -> str:
    """The mean, and the standard deviation of several values."""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


OURS, THEIRS = "#0072b2", "#d55e00"


def ablation_figure(results: Sequence[RowResult], title: str = "") -> Figure:
    """A figure with one line per row: difference to the first row in perplexity, in percent, and in BLEU, in points.

    Differences, because the figures themselves are of other data, other sizes and another BLEU.
    """
    names, rows = list(by_row(results)), list(by_row(results).values())
    base = PAPER.get(names[0])
    perplexities = [statistics.mean(result.perplexity for result in row) for row in rows]
    scores = [statistics.mean(result.sacrebleu for result in row) for row in rows]
    perplexity = [100 * (value / perplexities[0] - 1) for value in perplexities]
    bleu = [value - scores[0] for value in scores]
    papers = [PAPER.get(name) if base else None for name in names]
    paper_perplexity = [100 * (row.perplexity / base.perplexity - 1) if row and base else None for row in papers]
    paper_bleu = [row.bleu - base.bleu if row and base else None for row in papers]
    figure = Figure(figsize=(9.0, 1.6 + 0.34 * len(names)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _panel(left, names, perplexity, paper_perplexity, f"perplexity, % above {names[0]} (left is better)")
    _panel(right, names, bleu, paper_bleu, f"BLEU, points above {names[0]} (right is better)")
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10)
    return figure


def _panel(axis: Axes, names: list[str], ours: list[float], theirs: list[float | None], label: str) -> None:
    places = range(len(names))
    axis.axvline(0.0, color="#999999", linewidth=0.8)
    axis.scatter(ours, places, color=OURS, s=36, label="this run (sacreBLEU)", zorder=3)
    known = [(value, place) for value, place in zip(theirs, places) if value is not None]
    if known:
        values, rows = zip(*known)
        axis.scatter(values, rows, facecolors="none", edgecolors=THEIRS, s=52, label="the paper", zorder=2)
    axis.set_yticks(places, names, fontsize=8)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlabel(label, fontsize=8)
    axis.tick_params(labelsize=8, length=2)
    axis.grid(axis="x", linewidth=0.3)
    axis.spines[["top", "right"]].set_visible(False)
