"""CTranslate2's model directories, and the Argos Translate packages that hold one.

model.bin                  the weights, float32, float16, bfloat16, int16 or int8
config.json                special tokens, epsilon: see `ctranslate2_config`
shared_vocabulary.json     or source_vocabulary.json and target_vocabulary.json; or .txt
SentencePiece models       here or, as Argos has them, in the folder above: see `sentencepiece_files`
"""

import os
import pathlib

import numpy as np

from tf_transformer.importing._assembly import position_fields
from tf_transformer.importing._external_model import ExternalModel, ImportedModelError, Vocabulary, vocabulary
from tf_transformer.importing._layer_weights import gelu_sigmoid_as_swish, layer_tensors
from tf_transformer.importing._pieces import sentencepiece_files
from tf_transformer.importing._settings import MAX_TEXT_BYTES, first_lines, language_code, read_bytes, read_json
from tf_transformer.importing.ctranslate2._binary_model import CTranslate2Config, read_binary_model, read_config
from tf_transformer.importing.ctranslate2._layers import CTranslate2Layers

_ACTIVATIONS = {0: "relu", 2: "swish", 3: "gelu", 4: "swish"}
_GELU_SIGMOID = 4
# Beam size and length penalty of `Translator.translate_batch`; a model folder states none.
_DEFAULT_SEARCH = {
    "beam_size": 2,
    "length_penalty": "average",
    "alpha": 1.0,
    "early_stopping": True,
    "min_length": 1,
    "max_length": 256,
}
_OTHER_ACTIVATIONS = {1: "gelu (tanh)", 5: "tanh", 6: "sigmoid"}


def read_ctranslate2(
    directory: pathlib.Path, source_file: str | os.PathLike | None = None, target_file: str | os.PathLike | None = None
) -> ExternalModel:
    """The model of a CTranslate2 directory.

    Args:
        source_file, target_file: SentencePiece models to take instead of those that are found.
    """
    binary = read_binary_model(directory / "model.bin")
    config = read_config(directory, binary)
    layers = CTranslate2Layers(binary, directory / "model.bin")
    activation = layers.same("activation", 0)
    if activation not in _ACTIVATIONS:
        raise layers.error(f"the activation {_OTHER_ACTIVATIONS.get(activation, activation)}")
    pre_norm = bool(layers.same("pre_norm", 1))
    tensors, biased = layer_tensors(layers, layers.depths, pre_norm)
    if activation == _GELU_SIGMOID:
        gelu_sigmoid_as_swish(tensors)
    output = layers.linear("decoder/projection")
    source_table, target_table = layers.embedding("encoder"), layers.embedding("decoder")
    positions = position_fields(
        layers.positions("encoder"), layers.positions("decoder"), tensors, source_table.shape[1]
    )
    source, target = _vocabularies(directory, config, bool(layers.scalar("decoder/start_from_zero_embedding", 0)))
    scaled = layers.scaled_embeddings(source_table.shape[1])
    layers.check_all_read()
    pieces = sentencepiece_files(directory, source_file, target_file)
    return ExternalModel(
        format="CTranslate2",
        architecture={
            **layers.dimensions(tensors),
            **positions,
            "activation": _ACTIVATIONS[activation],
            "norm": "pre" if pre_norm else "post",
            "norm_epsilon": config.epsilon,
            "attention_bias": biased,
            "scale_embeddings": scaled,
        },
        layers=tensors,
        source_table=source_table,
        target_table=target_table,
        output_table=np.ascontiguousarray(output[0].T),
        output_bias=output[1],
        source=source,
        target=target,
        source_pieces=pieces[0],
        target_pieces=pieces[1],
        add_source_eos=config.add_source_eos,
        search=_DEFAULT_SEARCH,
    )


def _vocabularies(
    directory: pathlib.Path, config: CTranslate2Config, from_zeros: bool
) -> tuple[Vocabulary, Vocabulary]:
    eos, unk, start = config.eos, config.unk, None if from_zeros else config.decoder_start
    if (shared := _tokens(directory, "shared_vocabulary")) is not None:
        both = vocabulary(shared, f"{directory}/shared_vocabulary", eos, unk, decoder_start=start)
        return both, both
    source, target = (_tokens(directory, f"{side}_vocabulary") for side in ("source", "target"))
    if source is None or target is None:
        raise ImportedModelError(
            f"{directory}: expected shared_vocabulary.json, or source_vocabulary.json and target_vocabulary.json. "
            "Received: a folder without them. Get the files."
        )
    source_start = start if start in source else None
    return (
        vocabulary(source, f"{directory}/source_vocabulary", eos, unk, decoder_start=source_start),
        vocabulary(target, f"{directory}/target_vocabulary", eos, unk, decoder_start=start),
    )


def _tokens(directory: pathlib.Path, stem: str) -> list[str] | None:
    """The tokens of a vocabulary in JSON or, as older versions wrote it, one per line; None: there is no such file."""
    if (file := directory / f"{stem}.json").is_file():
        tokens = read_json(file, list)
        if not all(isinstance(token, str) for token in tokens):
            raise ImportedModelError(f"{file}: expected a list of strings. Received: other values. Get the file again.")
        return tokens
    if (file := directory / f"{stem}.txt").is_file():
        return read_bytes(file, MAX_TEXT_BYTES).decode("utf-8", "replace").removesuffix("\n").split("\n")
    return None


def argos_facts(package: pathlib.Path) -> tuple[tuple[str | None, str | None], str | None]:
    """The languages of an Argos package, and the licence where its README names one."""
    file = package / "metadata.json"
    facts = read_json(file) if file.is_file() else {}
    source, target = (language_code(facts.get(key)) for key in ("from_code", "to_code"))
    named = [
        line for line in first_lines(package / "README.md") if "licens" in line.lower() or "licenc" in line.lower()
    ]
    return (source, target), (named[0].strip()[:300] if named else None)
