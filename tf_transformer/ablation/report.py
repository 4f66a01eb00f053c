"""The table of an ablation as Markdown and as JSON, beside the paper's numbers."""

import dataclasses
from collections.abc import Sequence

from tf_transformer.ablation.paper import PAPER
from tf_transformer.ablation.results import RowResult
from tf_transformer.ablation.rows import AblationOptions

_HEADING = (
    "row", "change in the paper", "parameters", "perplexity", "sacreBLEU", "tokenized compound-split BLEU",
    "minutes", "paper: perplexity", "paper: tokenized compound-split BLEU", "paper: parameters",
)  # fmt: skip


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
    """

    command: str
    data: str
    split: str
    options: AblationOptions
    hardware: str
    versions: dict[str, str]

    @property
    def title(self) -> str:
        scaled = self.options.scale != 1 or self.options.depth_scale != 1
        return "The rows of Table 3, scaled down" if scaled else "The rows of Table 3"


def markdown(setting: Setting, results: Sequence[RowResult]) -> str:
    """The table as a page of Markdown, with what it takes to read and to repeat it."""
    lines = [f"# {setting.title}", "", *_facts(setting, results), ""]
    lines += ["| " + " | ".join(_HEADING) + " |", "|---|---|" + "---:|" * (len(_HEADING) - 2)]
    lines += ["| " + " | ".join(_cells(result)) + " |" for result in results]
    lines += [
        "",
        "The paper's columns are English-German, newstest2013, at full size. Neither perplexities of different "
        "vocabularies nor scores on other test sets can be compared as numbers: compare how rows differ from `base` "
        "here, and there.",
    ]
    return "\n".join(lines) + "\n"


def as_json(setting: Setting, results: Sequence[RowResult]) -> dict:
    """The table for machines: the circumstances, and for each row its figures and the paper's."""
    rows = []
    for result in results:
        paper = PAPER.get(result.row)
        rows.append(dataclasses.asdict(result) | {"paper": dataclasses.asdict(paper) if paper else None})
    return dataclasses.asdict(setting) | {"title": setting.title, "rows": rows}


def _facts(setting: Setting, results: Sequence[RowResult]) -> list[str]:
    options = setting.options
    steps = "each preset's own steps" if options.steps is None else f"{options.steps:,} steps a row"
    sizes = f"widths times {options.scale:g}, layers times {options.depth_scale:g}"
    packages = ", ".join(f"{name} {version}" for name, version in setting.versions.items())
    facts = [
        f"- Data: {setting.data}; scored on {setting.split} ({results[0].sentences:,} sentences).",
        f"- Training: {steps}, {sizes}" + "".join(f", `{one}`" for one in options.settings) + ".",
        "- Scored as the paper's Table 3: the last checkpoint, no averaging.",
        f"- sacreBLEU signature: `{results[0].signature}`.",
        f"- Hardware: {setting.hardware}. {packages}.",
        f"- Command: `{setting.command}`",
    ]
    return facts


def _cells(result: RowResult) -> list[str]:
    paper = PAPER.get(result.row)
    theirs = ["", "", ""]
    if paper:
        theirs = [f"{paper.perplexity:.2f}", f"{paper.bleu:.1f}", f"{paper.parameters}M" if paper.parameters else ""]
    return [
        result.row,
        paper.change if paper else "",
        f"{result.parameters / 1e6:.2f}M",
        f"{result.perplexity:.3f}",
        f"{result.sacrebleu:.2f}",
        f"{result.compound_split_bleu:.2f}",
        f"{result.training_seconds / 60:.1f}",
        *theirs,
    ]
