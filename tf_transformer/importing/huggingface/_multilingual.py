"""Hugging Face's folders of M2M-100, NLLB-200 and mBART-50.

All have pre-norm with final norms. M2M-100 and NLLB-200 have tensor2tensor's sines counted from 2; mBART-50 has learned
positions, of which the first two are never used, and a norm after the embedding. The decoder starts from EOS, and the
first token of a translation is that of its language.
"""

import os
import pathlib

from tf_transformer.importing._external_model import MAX_LAYERS, ExternalModel, ImportedModelError
from tf_transformer.importing._layer_weights import layer_tensors
from tf_transformer.importing._pieces import sentencepiece_files
from tf_transformer.importing._settings import show
from tf_transformer.importing._weight_files import read_weights
from tf_transformer.importing.huggingface._folder import Settings, Weights, licence_of, search_of
from tf_transformer.importing.huggingface._language_rows import TokenizerFiles

MODEL_TYPES = ("m2m_100", "mbart")
_OFFSET = 2
_MAX_VOCAB_SIZE = 1 << 24
_FIRST_TOKENS = {"eos": "eos_token_id", "pad": "pad_token_id", "start": "decoder_start_token_id"}


def read_multilingual_folder(
    directory: pathlib.Path,
    config: Settings,
    source_file: str | os.PathLike | None = None,
    target_file: str | os.PathLike | None = None,
) -> ExternalModel:
    """The model of a folder that `save_pretrained` of one of these families wrote, with its tokenizer's files."""
    learned = config.get("model_type") == "mbart"
    _check(config, learned)
    tokenizer = TokenizerFiles(directory, config.get("model_type"))
    pieces = sentencepiece_files(directory, source_file, target_file)
    size = config.number("vocab_size", _MAX_VOCAB_SIZE)
    vocabulary, languages = tokenizer.vocabulary(pieces[0], size, _special_rows(config, size))
    weights = Weights(read_weights(directory), directory)
    depths = {stack: config.number(f"{stack}_layers", MAX_LAYERS) for stack in ("encoder", "decoder")}
    tensors, biased = layer_tensors(weights, depths, pre_norm=True)
    positions = _positions(config, weights, tensors, learned)
    bias = weights.first(None, "final_logits_bias", optional=True)
    tables = weights.embeddings(config.flag("tie_word_embeddings", True))
    weights.check_all_read()
    if len(tables[0]) != size:
        raise ImportedModelError(
            f"{directory}: expected {size:,} embeddings, vocab_size. Received: {len(tables[0]):,}."
        )
    return ExternalModel(
        format=f"Hugging Face {tokenizer.kind.name}",
        architecture=positions | {"norm": "pre"} | config.architecture(depths, biased, scaled=not learned),
        layers=tensors,
        source_table=tables[0],
        target_table=tables[1],
        output_table=tables[2],
        output_bias=None if bias is None or not bias.any() else bias.reshape(-1),
        source=vocabulary,
        target=vocabulary,
        source_pieces=pieces[0],
        target_pieces=pieces[1] or pieces[0],
        languages=tokenizer.language_pair(languages, config.get("forced_bos_token_id")),
        licence=licence_of(directory),
        search=search_of(directory, config, forced=1),
        multilingual=languages,
    )


def _check(config: Settings, learned: bool) -> None:
    config.check_stacks()
    for name in ("normalize_before", "add_final_layer_norm"):
        config.require(name, True, config.flag(name, True))
    config.require("normalize_embedding", learned, config.flag("normalize_embedding", learned))
    config.require("static_position_embeddings", False, config.flag("static_position_embeddings", False))


def _special_rows(config: Settings, size: int) -> dict[str, int]:
    rows = {}
    for name, field in _FIRST_TOKENS.items():
        row = config.get(field)
        if type(row) is not int or not 0 <= row < size:
            raise ImportedModelError(
                f"{config.file}: expected a row, 0 to {size - 1:,}, as {field}. Received: {show(row)}."
            )
        rows[name] = row
    if rows["start"] != rows["eos"]:
        raise ImportedModelError(
            f"{config.file}: expected eos_token_id, {rows['eos']}, as decoder_start_token_id. Received: "
            f"{rows['start']}. A decoder that starts from another token cannot be imported."
        )
    return rows


def _positions(config: Settings, weights: Weights, tensors: dict, learned: bool) -> dict:
    """The fields of `ModelConfig` about positions and the norm behind them; learned ones go into `tensors`."""
    if not learned:
        weights.ignore("model.encoder.embed_positions.", "model.decoder.embed_positions.")
        return {"positions": "t2t", "position_offset": _OFFSET}
    rows = []
    for stack, side in (("encoder", "source"), ("decoder", "target")):
        table = weights.first(2, f"model.{stack}.embed_positions.weight")
        if len(table) <= _OFFSET:
            raise ImportedModelError(f"{config.file}: expected positions. Received: a table of {len(table)} rows.")
        tensors[f"{side}_positions/table"] = table[_OFFSET:].copy()
        gamma, beta = weights.norm_at(f"model.{stack}.layernorm_embedding")
        tensors[f"{side}_norm/gamma"], tensors[f"{side}_norm/beta"] = gamma, beta
        rows.append(len(table) - _OFFSET)
    if rows[0] != rows[1]:
        raise ImportedModelError(f"{config.file}: expected as many positions on both sides. Received: {rows}.")
    return {"positions": "learned", "max_positions": rows[0], "embedding_norm": True}
