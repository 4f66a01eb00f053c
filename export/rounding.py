"""What smaller weights do to a model's answers."""

import dataclasses
from collections.abc import Callable

import numpy as np

from tf_transformer.export.trial_rows import batches_of
from tf_transformer.export.verify import ExportRefused, answer

LIMIT = 0.05
"""By how much the log-probability of a token may change on the average."""


@dataclasses.dataclass(frozen=True)
class Rounding:
    """The effect: of `sentences` translations `changed` are others, and scores differ by `per_token` on average."""

    sentences: int
    changed: int
    per_token: float


def compare_rounded(functions, sentences: list[bytes], assign_rounded: Callable[[], None]) -> Rounding:
    """Translates with full weights, assigns the rounded ones, and compares; they stay assigned.

    More than `LIMIT` is ExportRefused.

    Args:
        functions: the signatures of the model in memory.
        assign_rounded: changes the model's weights.
    """
    batches = batches_of(sentences)
    full = answer(functions, [("serving_default", {"text": batch}) for batch in batches])
    pairs = [
        ("score", {"source": batch, "target": found["translation"].tolist()}) for batch, found in zip(batches, full)
    ]
    full_scores = answer(functions, pairs)
    assign_rounded()
    small = answer(functions, [("serving_default", {"text": batch}) for batch in batches])
    small_scores = answer(functions, pairs)
    changed = sum(int((one["translation"] != other["translation"]).sum()) for one, other in zip(full, small))
    tokens = sum(int(each["tokens"].sum()) for each in full_scores)
    apart = sum(float(np.abs(one["score"] - other["score"]).sum()) for one, other in zip(full_scores, small_scores))
    rounding = Rounding(len(sentences), changed, apart / max(tokens, 1))
    if not rounding.per_token <= LIMIT:
        raise ExportRefused(
            f"Smaller weights change this model too much: a token's log-probability by {rounding.per_token:.3f} on the "
            f"average, {LIMIT} is allowed. Export it with float32 weights."
        )
    return rounding
