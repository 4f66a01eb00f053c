"""A model of text, wherever it lives: a Translator in memory, or an exported SavedModel that needs nothing of ours."""

import json
import os
import pathlib
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.decoding.length_batches import in_batches
from tf_transformer.decoding.translation import PairScore, Translation, to_translations


class LoadedModel:
    """A Translator, as the commands use it.

    Attributes:
        name: what messages call it.
        target_language: its code, where it is known.
        limit: translations that a text has at most.
    """

    def __init__(self, translator, name: str = "The model", target_language: str | None = None):
        self._translator = translator
        self.name = name
        self.target_language = target_language
        self.limit = translator.decoding.beam_size

    def translate(self, texts: Sequence[bytes]) -> list[Translation]:
        """The best translation of each text, without a score, and whether the text was cut."""
        return self._translator.best(texts)

    def n_best(self, texts: Sequence[bytes]) -> list[Translation]:
        return self._translator.n_best(texts)

    def scores(self, sources: Sequence[bytes], targets: Sequence[bytes]) -> list[PairScore]:
        """The log-probability of each target given its source, its number of tokens, and whether the pair was cut."""
        return self._translator.pair_scores(sources, targets)


class ExportedModel:
    """The signatures `nbest` and `score` of a SavedModel: the attributes and methods of `LoadedModel`.

    Args:
        path: a version of an export, or the directory of its versions.
    """

    def __init__(self, path: str | os.PathLike):
        import tensorflow_text  # noqa: F401  registers the ops of the tokenizer, the one thing a SavedModel lacks

        self.path = newest_version(path)
        self.name = str(self.path)
        # Kept: variables and tables live as long as the object that owns them.
        self._loaded = tf.saved_model.load(str(self.path))
        self.limit = self._signature("nbest").structured_outputs["translations"].shape[1]

    @property
    def target_language(self) -> str | None:
        """What the model card says; None where there is none."""
        card = self.path / "model.json"
        return json.loads(card.read_bytes()).get("languages", {}).get("target") if card.is_file() else None

    def translate(self, texts: Sequence[bytes]) -> list[Translation]:
        # `serving_default` would be quicker, but does not tell which texts were cut.
        return [found._replace(texts=found.texts[:1], scores=found.scores[:1]) for found in self.n_best(texts)]

    def n_best(self, texts: Sequence[bytes]) -> list[Translation]:
        call = self._signature("nbest")
        return in_batches(lambda batch: to_translations(call(text=_strings(batch))), texts)

    def scores(self, sources: Sequence[bytes], targets: Sequence[bytes]) -> list[PairScore]:
        """As a LoadedModel's, but the signature does not tell which pairs were cut."""
        call = self._signature("score")

        def of_batch(source, target):
            found = call(source=_strings(source), target=_strings(target))
            columns = found["score"].numpy().tolist(), found["tokens"].numpy().tolist()
            return [PairScore(*row, truncated=None) for row in zip(*columns)]

        return in_batches(of_batch, sources, targets)

    def _signature(self, name: str) -> Callable:
        signatures = self._loaded.signatures
        if name not in signatures:
            known = ", ".join(signatures) or "none"
            raise ValueError(f"{self.path} has no signature {name}, only {known}; use `tf-transformer export`.")
        return signatures[name]


def newest_version(path: str | os.PathLike) -> pathlib.Path:
    """`path` if it is a SavedModel, else its subdirectory with the highest number that is one."""
    path = pathlib.Path(path)
    if (path / "saved_model.pb").is_file():
        return path
    versions = [each for each in path.glob("*/") if each.name.isdecimal() and (each / "saved_model.pb").is_file()]
    if not versions:
        raise ValueError(
            f"{path} is no SavedModel: expected saved_model.pb in it, or in a numbered directory below. "
            "Give what `tf-transformer export --output` wrote."
        )
    return max(versions, key=lambda version: int(version.name))


def _strings(texts: Sequence[bytes]) -> tf.Tensor:
    # An array of objects: arrays of NumPy's own bytes lose NULs at the end.
    return tf.constant(np.array(texts, dtype=object), tf.string)
