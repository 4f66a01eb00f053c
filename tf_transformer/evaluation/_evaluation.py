"""One evaluation: a model translates a test set, and what came out is scored."""

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
    """What one model did with one test set.

    hypotheses: the translations, one line each.
    scores: of the corpus.
    log_prob, tokens: of the references under the model, and how many tokens they have, each EOS counted.
    truncated: how many sources were too long and cut.
    seconds: that translating took.
    truncated_pairs: of how many references the perplexity is of a part only, because they or their sources were cut;
        None where the model does not tell, as an export.
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
        """Of a token of the references: it depends on the vocabulary, so it compares models that share one."""
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
        cut = f"; {self.truncated_pairs:,} pairs too long and cut" if self.truncated_pairs else ""
        return "\n".join(
            [
                *map(str, self.scores),
                f"perplexity {self.perplexity:.3f} per token ({self.tokens:,} tokens{cut})",
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
    """Translates `sources` and scores the translations against `references`.

    Args:
        model: a `LoadedModel` or an `ExportedModel`.
        target_language, tokenizer, bootstrap: as in `corpus_scores`.
        done: told the number of sentences after each batch that is translated.
    """
    if len(sources) != len(references):
        raise ValueError(
            f"Expected as many references as sources, got {len(sources):,} sources and {len(references):,} references."
        )
    if not sources:
        raise ValueError("There is nothing to evaluate: the test set has no sentences.")
    check_bootstrap(bootstrap)
    check_tokenizer(tokenizer)  # now, not after an hour of translating
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
