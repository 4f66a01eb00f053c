"""Corpus scores of translations, each with a name and a signature that show which scores are comparable.

The paper's BLEU is not sacreBLEU. It is `multi-bleu.perl` on text tokenized by Moses and with compounds split at their
hyphens (tensor2tensor's `get_ende_bleu.sh`), which gives higher numbers: here it is called "tokenized compound-split
BLEU", and no score is called "BLEU" alone.
"""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any

import sacrebleu.metrics
import sacremoses

from tf_transformer.text import two_letters

BOOTSTRAP = 1000
SACREBLEU, CHRF, COMPOUND_SPLIT = "sacreBLEU", "chrF", "tokenized compound-split BLEU"

_HYPHEN_IN_COMPOUND = re.compile(r"(\S)-(\S)")
# Where words have no spaces between them, sacreBLEU's 13a would count whole sentences as words.
_TOKENIZERS = {"zh": "zh", "ja": "char", "ko": "char", "th": "char"}


@dataclasses.dataclass(frozen=True)
class Score:
    """Corpus-level score, from 0 to 100.

    name: name of the measure.
    value: the score.
    signature: all settings of the measure, in sacreBLEU's form.
    mean, half_width: of the 95 % confidence interval by bootstrap resampling; None without it.
    """

    name: str
    value: float
    signature: str
    mean: float | None = None
    half_width: float | None = None

    @property
    def key(self) -> str:
        """The name as a JSON key: "tokenized_compound_split_bleu"."""
        return re.sub(r"\W", "_", self.name).lower()

    def to_dict(self) -> dict:
        return {"name": self.name, "score": self.value} | {
            field: getattr(self, field) for field in ("signature", "mean", "half_width")
        }

    def __str__(self) -> str:
        interval = "" if self.mean is None else f" (95 %: {self.mean:.2f} ± {self.half_width:.2f})"
        return f"{self.name} {self.value:.2f}{interval}  {self.signature}"


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    target_language: str | None = None,
    tokenizer: str | None = None,
    bootstrap: int = BOOTSTRAP,
) -> list[Score]:
    """Compute sacreBLEU, chrF and the paper's measure.

    Args:
        hypotheses: the translations.
        references: as many, in the same order.
        target_language: "de", for the rules of tokenization; None: those of English.
        tokenizer: sacreBLEU's, by its name there; None: 13a, or what fits the language.
        bootstrap: resamplings for the confidence intervals; below 2: none.
    """
    _check(hypotheses, references)
    check_tokenizer(tokenizer)
    return [
        sacrebleu_score(hypotheses, references, target_language, tokenizer, bootstrap),
        chrf_score(hypotheses, references, bootstrap),
        compound_split_score(hypotheses, references, target_language, bootstrap),
    ]


def sacrebleu_score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    target_language: str | None = None,
    tokenizer: str | None = None,
    bootstrap: int = 0,
) -> Score:
    """BLEU as sacreBLEU defines it: on raw, cased text, which it tokenizes itself."""
    tokenizer = tokenizer or _TOKENIZERS.get(two_letters(target_language) or "", "13a")
    return _score(SACREBLEU, sacrebleu.metrics.BLEU(tokenize=tokenizer), hypotheses, references, bootstrap)


def chrf_score(hypotheses: Sequence[str], references: Sequence[str], bootstrap: int = 0) -> Score:
    """chrF2 as sacreBLEU defines it: F-score of character n-grams."""
    return _score(CHRF, sacrebleu.metrics.CHRF(), hypotheses, references, bootstrap)


def compound_split_score(
    hypotheses: Sequence[str], references: Sequence[str], target_language: str | None = None, bootstrap: int = 0
) -> Score:
    """The paper's measure: BLEU without smoothing on words as `compound_split` makes them."""
    target_language = two_letters(target_language)
    moses = sacremoses.MosesTokenizer(lang=target_language or "en")
    words = [[compound_split(line, moses) for line in side] for side in (hypotheses, references)]
    # `force`: sacreBLEU warns of text that looks tokenized, as here it must.
    metric = sacrebleu.metrics.BLEU(tokenize="none", smooth_method="none", force=True)
    score = _score(COMPOUND_SPLIT, metric, words[0], words[1], bootstrap)
    tokenization = f"tok:moses-{target_language or 'en'}+compound-split"
    return dataclasses.replace(score, signature=score.signature.replace("tok:none", tokenization))


def compound_split(line: str, moses: sacremoses.MosesTokenizer) -> str:
    """A line as Moses tokenizes it, with hyphens inside words as words of their own: `a ##AT##-##AT## b`."""
    return _HYPHEN_IN_COMPOUND.sub(r"\1 ##AT##-##AT## \2", moses.tokenize(line, return_str=True))


def perplexity(log_prob: float, tokens: int) -> float:
    """Exponential of the mean negative log-probability per token; infinite if it overflows, NaN for NaN."""
    if tokens < 1:
        raise ValueError(f"Perplexity needs at least one token. Received: {tokens}. Check that the file is not empty.")
    mean = -log_prob / tokens
    return math.inf if mean >= 700 else math.exp(mean)


def finite(value: float) -> float | None:
    """The value, or None for infinity and NaN, which JSON does not have."""
    return value if math.isfinite(value) else None


def _score(name: str, metric: Any, hypotheses: Sequence[str], references: Sequence[str], bootstrap: int) -> Score:
    check_bootstrap(bootstrap)
    # One sentence cannot be resampled, and one resampling has no spread.
    bootstrap = bootstrap if bootstrap > 1 and len(hypotheses) > 1 else 0
    result = metric.corpus_score(hypotheses, [references], n_bootstrap=max(bootstrap, 1))
    signature = metric.get_signature().format()
    if not bootstrap:
        return Score(name, float(result.score), signature)
    # Private API: sacreBLEU formats the interval into its text only; see tests/unit/test_private_apis.py.
    return Score(name, float(result.score), signature, float(result._mean), float(result._ci))


def check_bootstrap(bootstrap: int) -> None:
    """Reject a negative number of resamplings."""
    if bootstrap < 0:
        raise ValueError(
            f"bootstrap, the number of resamplings, must be at least 0. Received: {bootstrap}. Use 0 for none."
        )


def check_tokenizer(tokenizer: str | None) -> None:
    """Reject unknown names, and tokenizers of sacreBLEU that do not work on this machine."""
    known = sacrebleu.metrics.BLEU.TOKENIZERS
    if tokenizer is not None and tokenizer not in known:
        raise ValueError(
            f"Expected a tokenizer of sacreBLEU. Received: {tokenizer!r}. Choose one of {', '.join(map(str, known))}."
        )
    try:
        sacrebleu.metrics.BLEU(tokenize=tokenizer)
    except Exception as error:  # a package, a dictionary or a download that is missing
        raise ValueError(
            f"Expected a tokenizer of sacreBLEU that works here. Received: {tokenizer!r}, which fails: {error}"
        ) from error


def tokenizer_name(score: Score) -> str:
    """Name of the tokenizer of a score for sacreBLEU's command; a signature may append a version to it."""
    signature = score.signature.partition("tok:")[2].partition("|")[0]
    return max((name for name in sacrebleu.metrics.BLEU.TOKENIZERS if name and signature.startswith(name)), key=len)


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(
            f"Expected as many translations as references. Received: {len(hypotheses)} and {len(references)}. Check "
            "that they are of the same test set."
        )
    if not hypotheses:
        raise ValueError("Expected at least one translation and its reference. Received: none.")
