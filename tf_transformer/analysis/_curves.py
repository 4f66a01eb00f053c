"""Learning curves of one or more runs: loss, perplexity, BLEU and learning rate from their logs."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from tf_transformer.training import read_log

X_AXES = {"steps": "updates", "hours": "hours of training", "tokens": "target tokens, millions"}
_PANELS = {
    "loss": "loss per token (smoothed)",
    "perplexity": "validation perplexity",
    "bleu": "sacreBLEU of a validation sample",
    "learning_rate": "learning rate",
}


@dataclasses.dataclass(frozen=True)
class Curve:
    """One series of a run: values over updates, hours of training and target tokens.

    Attributes:
        panel: "loss", "perplexity", "bleu" or "learning_rate".
        split: "train" or "validation".
        steps, hours, tokens, values: of equal length; tokens in millions.
    """

    panel: str
    split: str
    steps: list[int] = dataclasses.field(default_factory=list)
    hours: list[float] = dataclasses.field(default_factory=list)
    tokens: list[float] = dataclasses.field(default_factory=list)
    values: list[float] = dataclasses.field(default_factory=list)


def read_curves(workdir: str | os.PathLike) -> list[Curve]:
    """The curves in the log of a run, those without a value left out.

    Hours count time spent in training steps: pauses between the sessions of a resumed run do not count.

    Args:
        workdir: the work directory of a run.
    """
    directory = pathlib.Path(workdir) / "logs"
    events = read_log(directory)
    if not events:
        raise ValueError(
            f"Expected a work directory with the log of a run in it. Received: {workdir}, where "
            f"{directory / 'log.jsonl'} is missing or empty. Pass the --workdir of `tf-transformer train`."
        )
    curves = {
        key: Curve(*key)
        for key in (
            ("loss", "train"),
            ("loss", "validation"),
            ("perplexity", "validation"),
            ("bleu", "validation"),
            ("learning_rate", "train"),
        )
    }
    hours = tokens = 0.0
    for event in events:
        if event["event"] == "train":
            hours += event["tokens"] / max(event["tokens_per_second"], 1e-9) / 3600
            tokens += event["tokens"] / 1e6
        for (panel, split), curve in curves.items():
            value = event.get(panel)
            if (event["event"] == "train") == (split == "train") and value is not None:
                curve.steps.append(event["step"])
                curve.hours.append(hours)
                curve.tokens.append(tokens)
                curve.values.append(value)
    return [curve for curve in curves.values() if curve.values]


def curves_figure(runs: Mapping[str, Sequence[Curve]], x: str = "steps") -> Figure:
    """A figure with one panel per quantity and one color per run; validation is drawn with markers.

    Args:
        runs: curves by the name of their run.
        x: the horizontal axis, "steps", "hours" or "tokens".
    """
    if x not in X_AXES:
        raise ValueError(f"Expected x to be one of {', '.join(X_AXES)}. Received: {x!r}.")
    panels = [name for name in _PANELS if any(curve.panel == name for curves in runs.values() for curve in curves)]
    figure = Figure(figsize=(5.2 * min(len(panels), 2), 3.6 * -(-len(panels) // 2)), layout="constrained")
    axes = figure.subplots(-(-len(panels) // 2), min(len(panels), 2), squeeze=False).ravel()
    for axis, panel in zip(axes, panels):
        _draw(axis, panel, runs, x)
    for axis in axes[len(panels) :]:
        axis.remove()
    if len(runs) > 1:
        handles, labels = axes[0].get_legend_handles_labels()
        named = dict(zip(labels, handles))
        figure.legend(named.values(), named.keys(), loc="outside upper center", ncols=min(len(named), 4), frameon=False)
    return figure


def _draw(axis: Axes, panel: str, runs: Mapping[str, Sequence[Curve]], x: str) -> None:
    for number, (name, curves) in enumerate(runs.items()):
        for curve in (curve for curve in curves if curve.panel == panel):
            marker = "o" if curve.split == "validation" else None
            axis.plot(getattr(curve, x), curve.values, color=f"C{number}", label=name, marker=marker, markersize=3.5,
                      linewidth=1.2 if marker else 0.9, alpha=1.0 if marker else 0.75)  # fmt: skip
    if panel == "perplexity":
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_title(_PANELS[panel], fontsize=10)
    axis.set_xlabel(X_AXES[x], fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
