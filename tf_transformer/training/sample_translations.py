"""Translations of a few validation sentences while a model is trained, and their BLEU."""

import dataclasses

from tf_transformer.config import DecodingConfig
from tf_transformer.decoding.translator import Translator
from tf_transformer.evaluation.scores import Score, sacrebleu_score


class SampleTranslations:
    """Greedy translations of the first validation sentences: quick, and lower than the beam search's.

    Args:
        model: as it is being trained.
        tokenizers: its own.
        sources, references: the sentences.
        target_language: for BLEU's tokenization.
        decoding: lengths; its beam is not used.
    """

    def __init__(self, model, tokenizers, sources, references, target_language: str, decoding: DecodingConfig):
        greedy = dataclasses.replace(decoding, beam_size=1, n_best=1, sampling=False)
        self._translator = Translator(model, tokenizers, greedy)
        self._sources, self._references, self._language = sources, references, target_language

    def __call__(self) -> tuple[Score, list[tuple[str, str, str]]]:
        """The score, and (source, reference, translation) of the first few."""
        translations = self._translator(self._sources)
        score = sacrebleu_score(translations, self._references, self._language)
        return score, list(zip(self._sources, self._references, translations))[:5]
