"""Hugging Face's Marian folders: the OPUS-MT models as `transformers` has them.

config.json                        the architecture
model.safetensors                  or tf_model.h5, or pytorch_model.bin
vocab.json                         and target_vocab.json where the vocabularies are separate
source.spm, target.spm             SentencePiece
"""

import os
import pathlib

from tf_transformer.importing._assembly import position_fields
from tf_transformer.importing._external_model import (
    MAX_DIM,
    MAX_LAYERS,
    ExternalModel,
    ImportedModelError,
    Vocabulary,
    vocabulary,
)
from tf_transformer.importing._layer_weights import layer_tensors
from tf_transformer.importing._pieces import sentencepiece_files
from tf_transformer.importing._settings import language_code, read_json, show
from tf_transformer.importing._weight_files import read_weights
from tf_transformer.importing.huggingface._folder import Settings, Weights, licence_of, search_of


def read_marian_folder(
    directory: pathlib.Path,
    config: Settings,
    source_file: str | os.PathLike | None = None,
    target_file: str | os.PathLike | None = None,
) -> ExternalModel:
    """The model of a folder that `MarianMTModel.save_pretrained` wrote, with its tokenizer's files."""
    for name in ("normalize_embedding", "normalize_before", "add_final_layer_norm"):
        config.require(name, False, config.flag(name, False))
    config.check_stacks()
    weights = Weights(read_weights(directory), directory)
    depths = {stack: config.number(f"{stack}_layers", MAX_LAYERS) for stack in ("encoder", "decoder")}
    tensors, biased = layer_tensors(weights, depths, pre_norm=False)
    source_table, target_table, output_table = weights.embeddings(config.flag("tie_word_embeddings", True))
    bias = weights.first(None, "final_logits_bias", optional=True)
    positions = _positions(config, weights, tensors)
    weights.check_all_read()
    source, target = _vocabularies(directory, config, len(source_table))
    pieces = sentencepiece_files(directory, source_file, target_file)
    return ExternalModel(
        format="Hugging Face Marian",
        architecture=positions | config.architecture(depths, biased, scaled=False),
        layers=tensors,
        source_table=source_table,
        target_table=target_table,
        output_table=output_table,
        output_bias=None if bias is None else bias.reshape(-1),
        source=source,
        target=target,
        source_pieces=pieces[0],
        target_pieces=pieces[1],
        languages=_languages(directory),
        licence=licence_of(directory),
        search=search_of(directory, config),
    )


def _positions(config: Settings, weights: Weights, tensors: dict) -> dict:
    """Static positions are usually not in the file, for they are computed: "marian" by our name."""
    names = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]
    tables = [weights.first(2, name, optional=True) for name in names]
    if all(table is None for table in tables) and config.flag("static_position_embeddings", True):
        return {"positions": "marian"}
    source, target = (weights.first(2, name) for name in names)
    return position_fields(source, target, tensors, config.number("d_model", MAX_DIM))


def _vocabularies(directory: pathlib.Path, config: Settings, size: int) -> tuple[Vocabulary, Vocabulary]:
    source = _vocabulary(directory / "vocab.json", config, size)
    if (separate := directory / "target_vocab.json").is_file() and not config.flag(
        "share_encoder_decoder_embeddings", True
    ):
        return source, _vocabulary(separate, config, config.number("decoder_vocab_size", 1 << 24))
    return source, source


def _vocabulary(file: pathlib.Path, config: Settings, size: int) -> Vocabulary:
    """vocab.json maps tokens to rows; the special rows are those that config.json names."""
    rows = read_json(file)
    numbered = all(type(row) is int and 0 <= row < size for row in rows.values())
    if not rows or not numbered or len(set(rows.values())) != len(rows):
        raise ImportedModelError(
            f"{file}: expected each token with a row of its own, from 0 to {size - 1}. Received: {len(rows):,} entries "
            "that are not. Get the file again."
        )
    tokens = [f"<row {row}>" for row in range(max(rows.values()) + 1)]
    for token, row in rows.items():
        tokens[row] = token
    found = vocabulary(tokens, str(file))
    ends, pad = config.get("eos_token_id"), config.get("pad_token_id")
    start = config.get("decoder_start_token_id", pad)
    for name, row in (("eos_token_id", ends), ("pad_token_id", pad), ("decoder_start_token_id", start)):
        if type(row) is not int or not 0 <= row < len(tokens):
            raise ImportedModelError(f"{file}: expected a row of it as config.json's {name}. Received: {show(row)}.")
    return Vocabulary(found.tokens, ends, found.unk, pad, start)


def _languages(directory: pathlib.Path) -> tuple[str | None, str | None]:
    file = directory / "tokenizer_config.json"
    settings = read_json(file) if file.is_file() else {}
    return language_code(settings.get("source_lang")), language_code(settings.get("target_lang"))
