"""The summary of the heads as text, CSV and JSON."""

import csv
import dataclasses
import io
from collections.abc import Sequence

from tf_transformer.attention_maps.summary import MEASURES, HeadSummary

_COLUMNS = ("kind", "layer", "head", *MEASURES, "role")


def summary_text(summaries: Sequence[HeadSummary]) -> str:
    """An aligned table, a line a head: entropy in bits, distance in tokens, the rest as percentages."""
    rows = [_COLUMNS, *(tuple(_shown(column, getattr(head, column)) for column in _COLUMNS) for head in summaries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    left = {0, len(_COLUMNS) - 1}
    lines = [
        "  ".join(cell.ljust(width) if column in left else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(row, widths)))
        for row in rows
    ]  # fmt: skip
    return "\n".join(line.rstrip() for line in lines)


def _shown(column: str, value) -> str:
    if column in ("entropy", "distance"):
        return f"{value:.2f}"
    return f"{100 * value:.0f}%" if column in MEASURES else str(value)


def summary_csv(summaries: Sequence[HeadSummary]) -> str:
    """Comma-separated values with a heading, shares from 0 to 1."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in summary_rows(summaries):
        writer.writerow(row)
    return text.getvalue()


def summary_rows(summaries: Sequence[HeadSummary]) -> list[dict]:
    """A dictionary a head, for JSON; numbers rounded to what a corpus of a few hundred sentences can tell."""
    return [
        {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
        for row in map(dataclasses.asdict, summaries)
    ]
