"""Effect of a shortlist on an export: translations that change, and what they cost in log-probability."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

from tf_transformer.decoding import Shortlist, Translator
from tf_transformer.export._trial_rows import batches_of
from tf_transformer.export._verify import ExportRejected, Request, answer
from tf_transformer.text import Tokenizer

LIMIT = 0.05
"""Allowed mean loss of log-probability per token, under the model with its whole vocabulary."""


@dataclasses.dataclass(frozen=True)
class Restriction:
    """The effect of a shortlist.

    Attributes:
        shortlist: sizes and SHA-256 of the table.
        candidates: per sentence, on average.
        sentences, changed: translations compared, and how many differ from those without a shortlist.
        per_token: log-probability that they lose per token, on average; negative: they gain.
    """

    shortlist: dict[str, object]
    candidates: float
    sentences: int
    changed: int
    per_token: float


def measure_restriction(
    functions: Mapping[str, Callable],
    unrestricted: Translator,
    sentences: Sequence[bytes],
    shortlist: Shortlist,
    path: str | os.PathLike,
    tokenizer: Tokenizer,
) -> Restriction:
    """Compare translations with and without a shortlist. A loss of more than `LIMIT` is ExportRejected.

    Args:
        functions: the signatures of the model in memory, with the shortlist.
        unrestricted: the same model without it.
        path: file of the shortlist.
        tokenizer: of the source.
    """
    batches = batches_of(list(sentences))
    full = [[text.encode() for text in unrestricted(batch)] for batch in batches]
    requests: list[Request] = [("serving_default", {"text": batch}) for batch in batches]
    short = [found["translation"].tolist() for found in answer(functions, requests)]
    before, after = (_score(functions, batches, found) for found in (full, short))
    changed = sum(one != other for a, b in zip(full, short) for one, other in zip(a, b))
    counts = [len(shortlist.candidates_of(tokenizer.encode(sentence))) for sentence in sentences]
    effect = Restriction(
        shortlist.facts(path), round(sum(counts) / len(counts), 1), len(sentences), changed, before - after
    )
    if not effect.per_token <= LIMIT:
        raise ExportRejected(
            f"Expected the shortlist to cost at most {LIMIT} of log-probability per token. Received: "
            f"{effect.per_token:.3f}. Build a larger one (`tf-transformer shortlist --best … --frequent …`), or export "
            "without it."
        )
    return effect


def _score(functions: Mapping[str, Callable], sources: list[list[bytes]], targets: list[list[bytes]]) -> float:
    """Mean log-probability per token of translations, under the model with its whole vocabulary."""
    requests: list[Request] = [("score", {"source": one, "target": other}) for one, other in zip(sources, targets)]
    found = answer(functions, requests)
    tokens = sum(int(each["tokens"].sum()) for each in found)
    return sum(float(each["score"].sum()) for each in found) / max(tokens, 1)
