"""Statistics of each attention head over a corpus: entropy, distance, neighbours; as text, CSV and JSON."""

import csv
import dataclasses
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_transformer.analysis.attention._maps import KINDS
from tf_transformer.decoding import length_batches

if TYPE_CHECKING:
    from tf_transformer.config import ModelConfig
    from tf_transformer.model import Transformer
    from tf_transformer.text import TokenizerPair

BATCH_SENTENCES = 32
BATCH_WEIGHTS = 4_000_000
"""Weights of one layer that are held at a time: heads times queries times keys times sentences."""


@dataclasses.dataclass(frozen=True)
class HeadSummary:
    """Statistics of one head, as means over all queries of a corpus.

    Positions are counted from the start of each sequence. In the cross-attention a query is the word being written
    and a key a word of the source, so "same" is the source word at the same place.

    Args:
        kind, layer, head: which head; layer and head counted from 1, as in the paper.
        entropy: of the weights, in bits: 0 is one token only, log2(n) is n tokens evenly.
        reach: the entropy divided by its maximum, that of even weights over all allowed keys; 0 to 1.
        distance: mean of |key's position - query's position|, in tokens.
        previous, same, next: the share of the weight one position before, at and after the query's own, over the
            queries that have such a key.
        first, last: the share on the sequence's first key and on its last: BOS or EOS.
        role: what the head mostly does, in words.
    """

    kind: str
    layer: int
    head: int
    entropy: float
    reach: float
    distance: float
    previous: float
    same: float
    next: float
    first: float
    last: float
    role: str


MEASURES = ("entropy", "reach", "distance", "previous", "same", "next", "first", "last")
_SHARES = {
    "previous": "previous position",
    "same": "same position",
    "next": "next position",
    "first": "first token",
    "last": "last token",
}


def summarize_heads(
    model: "Transformer", tokenizers: "TokenizerPair", pairs: Iterable[tuple[str, str]]
) -> list[HeadSummary]:
    """The habits of every head of a Transformer over sentence pairs, in the order of kinds, layers and heads.

    Args:
        model: the Transformer.
        tokenizers: its TokenizerPair.
        pairs: (source, translation), text; a few hundred are enough.
    """
    totals = {kind: _Totals() for kind in KINDS}
    for rows in _batches(model.config, tokenizers, list(pairs)):
        sources, targets = zip(*rows)
        inputs = {"source": _padded(sources, model.config.pad_id), "target": _padded(targets, model.config.pad_id)}
        _, weights = model(inputs, training=False, return_attention_scores=True)
        for kind in KINDS:
            layers = np.stack([np.asarray(layer, dtype="float32") for layer in weights[kind]])
            queries, keys = (sources if kind == "encoder" else targets), (targets if kind == "decoder" else sources)
            for row, (query, key) in enumerate(zip(queries, keys)):
                totals[kind].add(layers[:, row, :, : len(query), : len(key)], causal=kind == "decoder")
    return [summary for kind in KINDS for summary in totals[kind].summaries(kind)]


def role_of(measures: dict[str, float]) -> str:
    """A head's habit in words: where more than half of its weight is, else how widely it spreads."""
    share, name = max((measures[name], name) for name in _SHARES)
    if share > 0.5:
        return _SHARES[name]
    if measures["reach"] > 0.8:
        return "everywhere"
    return "a few tokens" if measures["reach"] < 0.4 else "mixed"


class _Totals:
    """Sums over the queries of a corpus, each of shape (layers, heads)."""

    def __init__(self) -> None:
        self._sums: dict[str, Any] = {name: 0.0 for name in MEASURES}
        self._counts = {name: 0 for name in MEASURES}

    def add(self, weights: np.ndarray, causal: bool) -> None:
        """Add the weights (layers, H, queries, keys) of one sequence, without padding."""
        queries, keys = weights.shape[2:]
        place = np.arange(keys)[None, :] - np.arange(queries)[:, None]  # 0 on the diagonal
        allowed = (np.arange(queries) + 1).clip(max=keys) if causal else np.full(queries, keys)
        entropy = -(weights * np.log2(np.maximum(weights, 1e-12))).sum(axis=-1)  # (layers, H, queries)
        several = allowed > 1
        self._add("entropy", entropy.sum(axis=-1), queries)
        self._add("reach", (entropy[..., several] / np.log2(allowed[several])).sum(axis=-1), several.sum())
        self._add("distance", (weights * np.abs(place)).sum(axis=(-1, -2)), queries)
        for name, offset in (("previous", -1), ("same", 0), ("next", 1)):
            at = place == offset
            self._add(name, (weights * at).sum(axis=(-1, -2)), at.sum())
        self._add("first", weights[..., 0].sum(axis=-1), queries)
        self._add("last", weights[..., -1].sum(axis=-1), queries)

    def _add(self, name: str, total: np.ndarray, count: int) -> None:
        self._sums[name] = self._sums[name] + total.astype("float64")
        self._counts[name] += int(count)

    def summaries(self, kind: str) -> Iterator[HeadSummary]:
        means = {name: self._sums[name] / max(self._counts[name], 1) for name in MEASURES}
        for layer, head in np.ndindex(means["entropy"].shape):
            measures = {name: float(means[name][layer, head]) for name in MEASURES}
            yield HeadSummary(kind, layer + 1, head + 1, **measures, role=role_of(measures))


def _batches(
    config: "ModelConfig", tokenizers: "TokenizerPair", pairs: Sequence[tuple[str, str]]
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Pairs of ids, the source's and the decoder's input, in batches of similar length."""
    sources = tokenizers.source.encode_batch(source for source, _ in pairs)
    targets = [[config.bos_id, *ids[:-1]] for ids in tokenizers.target.encode_batch(target for _, target in pairs)]
    # A source of nothing, not even EOS, has nothing to be looked at.
    rows = [row for row in zip(sources, targets) if row[0]]
    if not rows:
        raise ValueError("Expected sentence pairs to summarize heads over. Received: none.")

    def batch_size(longest: int) -> int:
        return min(BATCH_SENTENCES, BATCH_WEIGHTS // (config.num_heads * longest**2))

    for batch in length_batches([max(map(len, row)) for row in rows], batch_size):
        yield [rows[index] for index in batch]


def _padded(rows: Sequence[Sequence[int]], pad_id: int) -> np.ndarray:
    """Rows of ids as one array (B, the longest)."""
    ids = np.full((len(rows), max(map(len, rows))), pad_id, "int32")
    for row, values in enumerate(rows):
        ids[row, : len(values)] = values
    return ids


_COLUMNS = ("kind", "layer", "head", *MEASURES, "role")


def summary_text(summaries: Sequence[HeadSummary]) -> str:
    """An aligned table, one line per head: entropy in bits, distance in tokens, the rest as percentages."""
    rows = [_COLUMNS, *(tuple(_shown(column, getattr(head, column)) for column in _COLUMNS) for head in summaries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    left = {0, len(_COLUMNS) - 1}
    lines = [
        "  ".join(cell.ljust(width) if column in left else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(row, widths)))
        for row in rows
    ]  # fmt: skip
    return "\n".join(line.rstrip() for line in lines)


def _shown(column: str, value: float | str) -> str:
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
    """One dictionary per head, for JSON, with rounded numbers."""
    return [
        {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
        for row in map(dataclasses.asdict, summaries)
    ]
