"""What translations are worth: corpus scores with their signatures, perplexity, and a record to repeat them from."""

from tf_transformer.evaluation.scores import (
    Score,
    chrf_score,
    compound_split_score,
    corpus_scores,
    perplexity,
    sacrebleu_score,
)

__all__ = ["Score", "chrf_score", "compound_split_score", "corpus_scores", "perplexity", "sacrebleu_score"]
