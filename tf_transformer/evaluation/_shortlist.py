"""Effect of a shortlist: candidates per sentence, reference tokens among them, quality and speed."""

import dataclasses
import statistics
import time
from collections.abc import Sequence

import numpy as np

from tf_transformer.decoding import LoadedModel, Shortlist, in_batches, parallel_batches
from tf_transformer.evaluation._scores import sacrebleu_score
from tf_transformer.text import TokenizerPair, as_line


def candidate_figures(
    shortlist: Shortlist, tokenizers: TokenizerPair, sources: Sequence[str], references: Sequence[str]
) -> dict[str, float]:
    """Candidates per sentence, and the share of the references' tokens that are among their sentence's candidates."""
    counts, covered, tokens = [], 0, 0
    encoded = tokenizers.source.encode_batch(sources), tokenizers.target.encode_batch(references)
    for source, reference in zip(*encoded, strict=True):
        candidates = shortlist.candidates_of(source)
        counts.append(len(candidates))
        covered += int(np.isin(reference, candidates).sum())
        tokens += len(reference)
    return {
        "candidates_mean": round(float(np.mean(counts)), 1),
        "candidates_p99": float(np.percentile(counts, 99)),
        "vocab_size": shortlist.vocab_size,
        "coverage": round(covered / max(tokens, 1), 5),
    }


@dataclasses.dataclass(frozen=True)
class ShortlistEffect:
    """Translations of a test set with the whole vocabulary and with a shortlist.

    Attributes:
        sentences: how many there are.
        changed: how many translations differ.
        sacrebleu_full, sacrebleu_shortlist: scores.
        signature: sacreBLEU's.
        speed: sentences per second with the shortlist by those without, median of the rounds.
    """

    sentences: int
    changed: int
    sacrebleu_full: float
    sacrebleu_shortlist: float
    signature: str
    speed: float

    @property
    def loss(self) -> float:
        """sacreBLEU that the shortlist costs; negative: it gains."""
        return self.sacrebleu_full - self.sacrebleu_shortlist


def shortlist_effect(
    full: LoadedModel,
    short: LoadedModel,
    sources: Sequence[str],
    references: Sequence[str],
    target_language: str | None = None,
    rounds: int = 3,
) -> ShortlistEffect:
    """Translate a test set with and without a shortlist, in alternation after one round that is not timed."""
    texts = [source.encode() for source in sources]
    translations: dict[str, list[str]] = {}
    seconds: dict[str, list[float]] = {"full": [], "short": []}
    for number in range(rounds + 1):
        for name, model in (("full", full), ("short", short)):
            begun = time.monotonic()
            found = in_batches(model.translate_sentences, texts, threads=parallel_batches())
            if number:
                seconds[name].append(time.monotonic() - begun)
            translations[name] = [as_line(each.texts[0]) for each in found]
    scores = {name: sacrebleu_score(lines, references, target_language) for name, lines in translations.items()}
    return ShortlistEffect(
        sentences=len(texts),
        changed=sum(one != other for one, other in zip(*translations.values())),
        sacrebleu_full=scores["full"].value,
        sacrebleu_shortlist=scores["short"].value,
        signature=scores["full"].signature,
        speed=statistics.median(seconds["full"]) / statistics.median(seconds["short"]),
    )
