"""The plot of an ablation: how each row differs from the first, here and in the paper."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from tf_transformer.ablation.paper import PAPER
from tf_transformer.ablation.results import RowResult

OURS, THEIRS = "#0072b2", "#d55e00"


def ablation_figure(results: Sequence[RowResult], title: str = "") -> Figure:
    """A figure with a line a row: the difference to the first row in perplexity, in percent, and in BLEU, in points.

    Differences, because the figures themselves are of other data, other sizes and another BLEU.
    """
    reference = results[0]
    base = PAPER.get(reference.row)
    perplexity = [100 * (result.perplexity / reference.perplexity - 1) for result in results]
    bleu = [result.sacrebleu - reference.sacrebleu for result in results]
    papers = [PAPER.get(result.row) if base else None for result in results]
    paper_perplexity = [100 * (row.perplexity / base.perplexity - 1) if row else None for row in papers]
    paper_bleu = [row.bleu - base.bleu if row else None for row in papers]
    figure = Figure(figsize=(9.0, 1.6 + 0.34 * len(results)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    names = [result.row for result in results]
    _panel(left, names, perplexity, paper_perplexity, f"perplexity, % above {reference.row} (left is better)")
    _panel(right, names, bleu, paper_bleu, f"BLEU, points above {reference.row} (right is better)")
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10)
    return figure


def _panel(axis, names, ours, theirs, label: str) -> None:
    places = range(len(names))
    axis.axvline(0.0, color="#999999", linewidth=0.8)
    axis.scatter(ours, places, color=OURS, s=36, label="this run (sacreBLEU)", zorder=3)
    known = [(value, place) for value, place in zip(theirs, places) if value is not None]
    if known:
        axis.scatter(*zip(*known), facecolors="none", edgecolors=THEIRS, s=52, label="the paper", zorder=2)
    axis.set_yticks(places, names, fontsize=8)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlabel(label, fontsize=8)
    axis.tick_params(labelsize=8, length=2)
    axis.grid(axis="x", linewidth=0.3)
    axis.spines[["top", "right"]].set_visible(False)
