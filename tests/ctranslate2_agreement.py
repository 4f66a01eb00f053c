"""Agreement of our search with CTranslate2's: translations and scores."""

import dataclasses
from collections.abc import Sequence

import ctranslate2

from tf_transformer.decoding._translator import Translator
from tf_transformer.export._ctranslate2 import export_ctranslate2
from tf_transformer.workdir._workdir import Workdir


@dataclasses.dataclass(frozen=True)
class Difference:
    """A text that was translated differently: (translation, log-probability) of both."""

    text: str
    ours: tuple[str, float]
    theirs: tuple[str, float]


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Results of both for the same texts.

    differences: the texts that were translated differently.
    score_distance: the largest distance of two scores where the translations are the same.
    distinct: how many different translations there are; few would prove little.
    """

    differences: list[Difference]
    score_distance: float
    distinct: int


def compare_searches(
    workdir: Workdir, directory, texts: Sequence[str], beam_size: int, length_penalty: float = 0.0
) -> Agreement:
    """Exports a model to `directory` and translates `texts` with both: see `compare_with`."""
    return compare_with(export_ctranslate2(workdir, directory), workdir, texts, beam_size, length_penalty)


def compare_with(
    directory, workdir: Workdir, texts: Sequence[str], beam_size: int, length_penalty: float = 0.0
) -> Agreement:
    """Translates `texts` with both, as CTranslate2 searches.

    Args:
        directory: CTranslate2's model.
        workdir: ours.
        length_penalty: exponent of the length. Scores are compared without one: CTranslate2 divides them.
    """
    # Without a minimum of the length: CTranslate2 removes EOS before it normalizes the probabilities.
    plain = {"failure_detection": False, "unknown": "keep", "min_length": 0}
    if length_penalty:
        plain |= {"length_penalty": "average", "early_stopping": True}
    translator = Translator.from_workdir(workdir.path, beam_size=beam_size, alpha=length_penalty, **plain)
    found = [(each.texts[0], each.log_probs[0]) for each in translator.nbest(texts)]
    runtime = ctranslate2.Translator(str(directory), intra_threads=1)
    theirs = _translate(runtime, workdir, texts, beam_size, length_penalty)
    pairs = list(zip(texts, found, theirs))
    return Agreement(
        [Difference(*pair) for pair in pairs if pair[1][0] != pair[2][0]],
        max((abs(ours[1] - other[1]) for _, ours, other in pairs if ours[0] == other[0]), default=0.0),
        len({text for text, _ in found}),
    )


def _translate(
    runtime, workdir: Workdir, texts: Sequence[str], beam_size: int, length_penalty: float
) -> list[tuple[str, float]]:
    """Translate the texts with CTranslate2, together with those of one length, for its limit is that of a call."""
    source, target = workdir.tokenizers.source, workdir.tokenizers.target
    rows = source.encode_batch(texts)
    names = {piece: index for index, piece in enumerate(target.pieces(range(target.vocab_size)))}
    found: list = [None] * len(texts)
    for length in set(map(len, rows)):
        group = [index for index, row in enumerate(rows) if len(row) == length]
        results = runtime.translate_batch(
            [source.pieces(rows[index][: length - source.add_eos]) for index in group],
            beam_size=beam_size,
            length_penalty=length_penalty,
            min_decoding_length=0,  # by default CTranslate2 never gives an empty translation
            max_decoding_length=length + workdir.config.decoding.max_extra_length,
            max_batch_size=32,
            return_scores=True,
        )
        for index, result in zip(group, results):
            found[index] = target.decode([names[piece] for piece in result.hypotheses[0]]), result.scores[0]
    return found
