"""Evaluation: a model translates a test set, and the translations are scored."""

import dataclasses
import time
from collections.abc import Callable, Sequence

from tf_transformer.decoding import ExportedModel, LoadedModel, count_truncated, in_batches, parallel_batches
from tf_transformer.evaluation._scores import (
    BOOTSTRAP,
    Score,
    check_bootstrap,
    check_tokenizer,
    corpus_scores,
    finite,
    perplexity,
)
from tf_transformer.text import as_line


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Result of evaluating one model on one test set.

    hypotheses: the translations, one line each.
    scores: of the corpus.
    log_prob, tokens: of the references under the model, and how many tokens they have, each EOS counted.
    truncated: number of sources that were too long and truncated.
    seconds: time to translate the test set.
    truncated_pairs: number of pairs of which the source or the reference was truncated to compute the perplexity;
        None if unknown, as with an export.
    """

    hypotheses: list[str]
    scores: list[Score]
    log_prob: float
    tokens: int
    truncated: int
    seconds: float
    truncated_pairs: int | None = 0

    @property
    def perplexity(self) -> float:
        """Perplexity per token of the references; comparable only between models with the same vocabulary."""
        return perplexity(self.log_prob, self.tokens)

    def to_dict(self) -> dict:
        """The figures, for JSON."""
        count = len(self.hypotheses)
        figures = {score.key: score.to_dict() for score in self.scores}
        return figures | {
            "perplexity": finite(self.perplexity),
            "tokens": self.tokens,
            "sentences": count,
            "truncated": self.truncated,
            "truncated_pairs": self.truncated_pairs,
            "seconds": round(self.seconds, 3),
            "sentences_per_second": round(count / max(self.seconds, 1e-9), 3),
        }

    def report(self) -> str:
        """The figures as lines of text."""
        truncated = f"; {self.truncated_pairs:,} pairs truncated" if self.truncated_pairs else ""
        return "\n".join(
            [
                *map(str, self.scores),
                f"perplexity {self.perplexity:.3f} per token ({self.tokens:,} tokens{truncated})",
                f"truncated inputs {self.truncated:,} of {len(self.hypotheses):,}",
            ]
        )


def evaluate(
    model: LoadedModel | ExportedModel,
    sources: Sequence[str],
    references: Sequence[str],
    target_language: str | None = None,
    tokenizer: str | None = None,
    bootstrap: int = BOOTSTRAP,
    done: Callable[[int], None] | None = None,
) -> Evaluation:
    """Translate `sources` and score the translations against `references`.

    Args:
        model: a `LoadedModel` or an `ExportedModel`.
        target_language, tokenizer, bootstrap: as in `corpus_scores`.
        done: called with the number of sentences of each translated batch.
    """
    if len(sources) != len(references):
        raise ValueError(
            f"Expected as many references as sources. Received: {len(sources):,} sources and {len(references):,} "
            "references."
        )
    if not sources:
        raise ValueError("Expected a test set to evaluate. Received: one with no sentences.")
    check_bootstrap(bootstrap)
    check_tokenizer(tokenizer)  # before the translation, which may take an hour
    texts, targets = ([line.encode() for line in side] for side in (sources, references))
    start = time.monotonic()
    # A line of a test set is scored as one segment, so it is translated as one.
    found = in_batches(model.translate_sentences, texts, threads=parallel_batches(), done=done)
    seconds = time.monotonic() - start
    pairs = in_batches(model.score, texts, targets, threads=parallel_batches())
    hypotheses = [as_line(translation.texts[0]) for translation in found]
    return Evaluation(
        hypotheses=hypotheses,
        scores=corpus_scores(hypotheses, references, target_language, tokenizer, bootstrap),
        log_prob=sum(pair.log_prob for pair in pairs),
        tokens=sum(pair.tokens for pair in pairs),
        truncated=sum(translation.truncated for translation in found),
        seconds=seconds,
        truncated_pairs=count_truncated(pairs),
    )
