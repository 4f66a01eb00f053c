"""Export candidate: a checkpoint with its translator, signatures and the answers that its export must give."""

import dataclasses
import json
import logging
import os
import pathlib
import time
from collections.abc import Callable, Container, Mapping

import tensorflow as tf

from tf_transformer._cpu import cpu_flags
from tf_transformer.config import ConfigError, DecodingConfig
from tf_transformer.decoding import SMALL_STEP, CandidateTable, LengthRange, Shortlist, Translator, separate_small_steps
from tf_transformer.export._card_facts import card_facts
from tf_transformer.export._matrices import pack_model, quantize_model
from tf_transformer.export._restriction import Restriction, measure_restriction
from tf_transformer.export._serving_assets import write_serving_assets
from tf_transformer.export._signatures import trace_signatures
from tf_transformer.export._stored_weights import COMPARED, Rounding, compare_rounded, rounded, stored
from tf_transformer.export._trial_rows import batches_of, sentences_of, unusual_batches
from tf_transformer.export._verify import Answer, Request, trial_requests
from tf_transformer.layers import inference_layout
from tf_transformer.model import Transformer
from tf_transformer.workdir import Workdir, assign_model, named_variables
from tf_transformer.workdir.checkpoints import load_model_tensors

SENTENCES = 200
"""Of the validation set, on which an export has to translate as the checkpoint does."""

PACKED = ("serving_default", "document", "translate_to")
"""Signatures that `packed` applies to. Each keeps a packed copy of the decoder's weights in memory, and a second one
once the second search of failure detection has run in it.
"""

logger = logging.getLogger(__name__)


class Candidate:
    """A checkpoint with the weights that will be served, in a plain float32 graph.

    Args:
        workdir: where it was trained.
        checkpoint: its directory.
        weights: "float32", "float16", "bfloat16" or "int8".
        decoding: fields of `DecodingConfig` to change; see `export_saved_model`.
        shortlist: file of a shortlist, or None.
        languages: source and target language; None: those of the work directory.
        packed: whether oneDNN packs the weights of the signatures `PACKED` once, for small steps of the search. Not
            with "int8", nor with a beam size above `SMALL_STEP`.

    Attributes:
        facts: of the model card; see `card_facts`.
        languages: source and target language of the signatures, as far as they are known.
        targets: codes of the signature `translate_to`; none if the model is not multilingual.
        signatures: concrete functions by name.
        sentences, sentences_from: sentences of the parity check, and their origin.
        rounding: effect of rounded weights on the answers; None for float32.
        restriction: effect of the shortlist on the translations; None without one.
    """

    def __init__(
        self,
        workdir: Workdir,
        checkpoint: pathlib.Path,
        weights: str,
        decoding: dict,
        shortlist: str | os.PathLike | None = None,
        languages: tuple[str | None, str | None] = (None, None),
        packed: bool = False,
    ):
        self.workdir, self.checkpoint, self.weights = workdir, checkpoint, weights
        self.decoding = search_of(workdir, decoding)
        if packed:
            _check_packed(weights, self.decoding)
        if weights == "int8":
            _warn_without_vnni(cpu_flags())
        self.languages, self.targets = _languages(workdir, languages)
        full = load_model_tensors(checkpoint)
        kept = rounded(full, weights, str(checkpoint))
        # Independent of the dtype policy and the GPU of this process: servers may have neither.
        with tf.device("/CPU:0"), inference_layout(rows=shortlist is not None):
            self.model = Transformer(workdir.config.model, dtype="float32")
        assign_model(self.model, full, str(checkpoint))
        logger.info("Building the graph of %s …", checkpoint)
        facts = card_facts(workdir, checkpoint, self.decoding, weights, self.model.count_params(), packed)
        self.facts = facts | {"languages": _card_languages(self.languages, self.targets)}
        card = json.dumps(self.facts, ensure_ascii=False)
        self._matrices: dict[str, tf.Module] = {}
        self._shortlist: CandidateTable | None = None
        self.signatures = self._trace(card, shortlist, COMPARED if weights == "int8" else None)
        self.sentences, self.sentences_from = sentences_of(workdir, SENTENCES)
        self.rounding: Rounding | None = None

        def round_weights() -> Mapping[str, Callable]:
            if weights == "int8":
                self._matrices = quantize_model(self.model)
                self.signatures = self._trace(card, shortlist)
            else:
                assign_model(self.model, kept, str(checkpoint))
            return self.signatures

        if weights != "float32":
            logger.info("Comparing %s weights with the checkpoint's …", weights)
            self.rounding = compare_rounded(self.signatures, self.sentences, round_weights)
        if packed:
            pack_model(self.model)
            with separate_small_steps():
                self.signatures = self.signatures | self._trace(card, shortlist, PACKED)
        self.restriction = None if shortlist is None else self._restriction(shortlist)

    def _trace(
        self, card: str, shortlist: str | os.PathLike | None, only: Container[str] | None = None
    ) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """The signatures of the model with its present weights."""
        # One table for all signatures, whenever they are traced.
        table = self._shortlist or (None if shortlist is None else Shortlist.load(shortlist))
        translator = self._translator(table)
        self._shortlist = translator.shortlist
        return trace_signatures(translator, self.decoding.nbest, self.decoding.segmentation, card, only)

    def _translator(self, shortlist: Shortlist | CandidateTable | None) -> Translator:
        (source, target), usual = self.languages, LengthRange.from_dataset(self.workdir.dataset_info)
        tokenizers = self.workdir.tokenizers
        return Translator(self.model, tokenizers, self.decoding, source, shortlist, usual, target)

    def _restriction(self, path: str | os.PathLike) -> Restriction:
        logger.info("Comparing translations with and without the shortlist …")
        tokenizer = self.workdir.tokenizers.source
        return measure_restriction(
            self.signatures, self._translator(None), self.sentences, Shortlist.load(path), path, tokenizer
        )

    def trial(self) -> tuple[list[Request], list[Answer], float]:
        """The requests of the parity check, the expected answers, and the seconds that these took."""
        began = time.monotonic()
        unusual = unusual_batches(self.workdir.tokenizers.source, self.decoding.max_source_length)
        requests, answers = trial_requests(self.signatures, batches_of(self.sentences), unusual, self.targets)
        return requests, answers, time.monotonic() - began

    def save(self, directory: pathlib.Path, name: str, translations: list[bytes]) -> None:
        """Write the SavedModel and its assets for servers.

        Args:
            directory: is created.
            name: of the model in warm-up requests.
            translations: of the first sentences, for these requests.
        """
        root = tf.Module()
        variables = {
            name: variable.value
            for name, variable in named_variables(self.model).items()
            if variable.path not in self._matrices
        }
        root.weights = stored(variables, self.weights)
        root.matrices = {path.partition("/")[2]: matrix for path, matrix in self._matrices.items()}
        root.shortlist = self._shortlist
        root.tokenizers = [self.workdir.tokenizers.source, self.workdir.tokenizers.target]
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        tf.saved_model.save(root, str(directory), self.signatures, options)
        write_serving_assets(
            directory, name, list(zip(self.sentences, translations)), self.signatures, self.languages[1]
        )


def _languages(
    workdir: Workdir, given: tuple[str | None, str | None]
) -> tuple[tuple[str | None, str | None], tuple[str, ...]]:
    """The languages of the signatures, and those of `translate_to`; LanguageError if one is missing or unknown."""
    pair, known = workdir.language_pair(*given), workdir.tokenizers.languages
    if known is None:
        return pair, ()
    if known.source_token == "source":
        known.check("source", pair[0])
    known.check("target", pair[1])
    return pair, known.targets


def _card_languages(pair: tuple[str | None, str | None], targets: tuple[str, ...]) -> dict:
    """Source and target language, and those of `translate_to`, for the model card."""
    return {"source": pair[0], "target": pair[1]} | ({"targets": list(targets)} if targets else {})


def _warn_without_vnni(flags: frozenset[str]) -> None:
    """Warn where a CPU of these flags gains nothing from int8; no flags: unknown."""
    if flags and not flags & {"avx512_vnni", "avx_vnni"}:
        logger.warning(
            "This CPU has no VNNI instructions. On such CPUs int8 weights make the files smaller, but decoding is not "
            "faster than with float32."
        )


def _check_packed(weights: str, decoding: DecodingConfig) -> None:
    """ValueError if no step of the search would use packed weights."""
    if weights == "int8":
        raise ValueError(
            "Expected packed weights of float32, float16 or bfloat16. Received: int8. Leave out --packed: int8 "
            "weights are packed without it."
        )
    # Samples are drawn with one hypothesis per sentence, whatever the beam size.
    if decoding.beam_size > SMALL_STEP and not decoding.sampling:
        raise ValueError(
            f"Expected a beam size of at most {SMALL_STEP} with packed weights, because only steps of at most "
            f"{SMALL_STEP} hypotheses use them. Received: {decoding.beam_size}. Leave out --packed, or lower the beam "
            "size."
        )


def search_of(workdir: Workdir, changes: dict) -> DecodingConfig:
    """The search of a work directory with changes; ConfigError if `nbest` exceeds the beam size."""
    decoding = dataclasses.replace(workdir.config.decoding, **changes)
    nbest, beams = decoding.nbest, decoding.beam_size
    if nbest is not None and nbest > beams:
        raise ConfigError(
            f"Expected decoding.nbest of at most decoding.beam_size = {beams}. Received: {nbest}. Lower it, or raise "
            "the beam size."
        )
    return decoding
