"""Validation during training: the loss over all replicas, and sample translations with their BLEU."""

import contextlib
import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.config import DecodingConfig
from tf_transformer.decoding import Translator
from tf_transformer.evaluation import Score, sacrebleu_score
from tf_transformer.model import Transformer
from tf_transformer.text import TokenizerPair, two_letters
from tf_transformer.training._gradients import BatchGradients
from tf_transformer.training._input import take_position


class ValidationLoss(NamedTuple):
    """Loss on the validation set: means per token."""

    loss: float
    """Smoothed loss."""
    negative_log_likelihood: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """Perplexity per subword, as in Table 3 of the paper."""
        return perplexity(self.negative_log_likelihood)


class Validation:
    """Mean loss over the validation set.

    Args:
        strategy: strategy of the training.
        gradients: computes the loss of a batch.
        dataset: creates the endlessly repeated validation set of an input pipeline, with one element per replica.
        batches: number of batches of the validation set.
        watch: a context manager for calls that need all workers. Each batch is one call, so that a large validation
            set does not look like a lost worker.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        gradients: BatchGradients,
        dataset: Callable[[tf.distribute.InputContext], tf.data.Dataset],
        batches: int,
        watch: contextlib.AbstractContextManager | None = None,
    ):
        self._strategy, self._gradients, self._batches = strategy, gradients, batches
        self._dataset = strategy.distribute_datasets_from_function(dataset)
        self._watch = watch or contextlib.nullcontext()
        self._sums = tf.function(self._all_sums, autograph=False)

    def __call__(self) -> ValidationLoss:
        totals = [0.0, 0.0, 0.0]
        iterator = iter(self._dataset)
        for _ in range(self._batches):
            with self._watch:
                totals = [total + float(value) for total, value in zip(totals, self._sums(iterator))]
        loss, likelihood, tokens = totals
        return ValidationLoss(loss / max(tokens, 1.0), likelihood / max(tokens, 1.0), int(tokens))

    def _all_sums(self, iterator: Any) -> list[tf.Tensor]:
        batch, _ = take_position(self._strategy, iterator.get_next())
        per_replica = self._strategy.run(self._gradients.sums, args=(batch,))
        return [self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None) for value in per_replica]


def perplexity(negative_log_likelihood: float) -> float:
    """Exponential of the mean negative log-likelihood; infinite if it exceeds the range of a float."""
    return math.exp(negative_log_likelihood) if negative_log_likelihood < 700 else math.inf


class SampleTranslations:
    """Greedy translations of the first validation sentences: fast, with a lower BLEU than beam search.

    Args:
        model: the model in training.
        tokenizers: tokenizers of the model.
        sources, references: validation sentences.
        languages: source and target language of each sentence; the target's is also for the tokenization of BLEU.
        decoding: length limits; its beam size is not used.
    """

    def __init__(
        self,
        model: Transformer,
        tokenizers: TokenizerPair,
        sources: list[str],
        references: list[str],
        languages: list[tuple[str | None, str | None]],
        decoding: DecodingConfig,
    ):
        greedy = dataclasses.replace(decoding, beam_size=1, nbest=1, sampling=False, segmentation=False)
        self._translator = Translator(model, tokenizers, greedy)
        self._sources, self._references, self._pairs = sources, references, languages

    def __call__(self) -> tuple[Score, list[tuple[str, str, str]]]:
        """Return the score, and (source, reference, translation) of the first five sentences."""
        translations = self._translate()
        targets = {target for _, target in self._pairs}
        language = two_letters(targets.pop()) if len(targets) == 1 else None
        score = sacrebleu_score(translations, self._references, language)
        return score, list(zip(self._sources, self._references, translations))[:5]

    def _translate(self) -> list[str]:
        """The translations of all sentences, of a multilingual model those of one source language at a time."""
        if self._translator.languages is None:
            return self._translator(self._sources)
        found = [""] * len(self._sources)
        for source in dict.fromkeys(source for source, _ in self._pairs):
            places = [place for place, pair in enumerate(self._pairs) if pair[0] == source]
            texts, targets = (
                [self._sources[place] for place in places],
                [str(self._pairs[place][1]) for place in places],
            )
            for place, text in zip(places, self._translator(texts, source_language=source, target_language=targets)):
                found[place] = text
        return found
