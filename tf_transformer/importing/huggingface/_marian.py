"""Hugging Face's Marian folders: the OPUS-MT models as `transformers` has them.

config.json                        the architecture
model.safetensors                  or tf_model.h5, or pytorch_model.bin
vocab.json                         and target_vocab.json where the vocabularies are separate
source.spm, target.spm             SentencePiece
"""

import os
import pathlib
from typing import Any

import numpy as np

from tf_transformer.importing._assembly import position_fields
from tf_transformer.importing._external_model import (
    MAX_DIM,
    MAX_FEED_FORWARD_DIM,
    MAX_HEADS,
    MAX_LAYERS,
    ExternalModel,
    ImportedModelError,
    Vocabulary,
    search_settings,
    vocabulary,
)
from tf_transformer.importing._layer_weights import Linear, layer_tensors
from tf_transformer.importing._pieces import sentencepiece_files
from tf_transformer.importing._settings import first_lines, language_code, read_json, show
from tf_transformer.importing._weight_files import read_weights

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
# torch.nn.LayerNorm's, which the model has.
_EPSILON = 1e-5
_ATTENTION = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_PARTS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


def read_huggingface(
    directory: pathlib.Path, source_file: str | os.PathLike | None = None, target_file: str | os.PathLike | None = None
) -> ExternalModel:
    """The model of a folder that `MarianMTModel.save_pretrained` wrote, with its tokenizer's files."""
    config = _Settings(read_json(directory / "config.json"), directory / "config.json")
    config.check()
    weights = _Weights(read_weights(directory), directory)
    depths = {stack: config.number(f"{stack}_layers", MAX_LAYERS) for stack in ("encoder", "decoder")}
    tensors, biased = layer_tensors(weights, depths, pre_norm=False)
    source_table = weights.first(2, "model.encoder.embed_tokens.weight", "model.shared.weight")
    target_table = weights.first(2, "model.decoder.embed_tokens.weight", "model.shared.weight")
    tied = [] if not config.flag("tie_word_embeddings", True) else ["model.decoder.embed_tokens.weight"]
    output_table = weights.first(2, "lm_head.weight", *tied, *(["model.shared.weight"] if tied else []))
    bias = weights.first(None, "final_logits_bias", optional=True)
    positions = _positions(config, weights, tensors)
    weights.check_all_read()
    source, target = _vocabularies(directory, config, len(source_table))
    pieces = sentencepiece_files(directory, source_file, target_file)
    heads, dim = config.number("encoder_attention_heads", MAX_HEADS), config.number("d_model", MAX_DIM)
    return ExternalModel(
        format="Hugging Face Marian",
        architecture={
            **positions,
            "num_layers": depths["encoder"],
            "num_decoder_layers": None if depths["encoder"] == depths["decoder"] else depths["decoder"],
            "num_heads": heads,
            "model_dim": dim,
            "feed_forward_dim": config.number("encoder_ffn_dim", MAX_FEED_FORWARD_DIM),
            "key_dim": dim // heads,
            "value_dim": dim // heads,
            "activation": config.activation(),
            "norm_epsilon": _EPSILON,
            "attention_bias": biased,
            "scale_embeddings": config.flag("scale_embedding", False),
        },
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
        licence=_licence(directory),
        search=_search(directory, config),
    )


class _Settings:
    """config.json, with the checks of types and of what we have no part for."""

    def __init__(self, values: dict, file: pathlib.Path) -> None:
        self._values, self._file = values, file

    def get(self, name: str, default: Any = None) -> Any:
        value = self._values.get(name)
        return default if value is None else value

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name, default)
        if type(value) is not bool:
            raise ImportedModelError(f"{self._file}: {name} must be true or false. Received: {show(value)}.")
        return value

    def number(self, name: str, most: int, least: int = 1) -> int:
        value = self._values.get(name)
        if type(value) is not int or not least <= value <= most:
            raise ImportedModelError(
                f"{self._file}: {name} must be a whole number from {least} to {most}. Received: {show(value)}."
            )
        return value

    def activation(self) -> str:
        name = self.get("activation_function", "gelu")
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            raise ImportedModelError(
                f"{self._file}: the activation must be one of {', '.join(_ACTIVATIONS)}. Received: {show(name)}."
            )
        return _ACTIVATIONS[name]

    def check(self) -> None:
        self._require("model_type", "marian", self.get("model_type"))
        for name in ("normalize_embedding", "normalize_before", "add_final_layer_norm"):
            self._require(name, False, self.flag(name, False))
        for field, most in (("attention_heads", MAX_HEADS), ("ffn_dim", MAX_FEED_FORWARD_DIM)):
            encoder = self.number(f"encoder_{field}", most)
            self._require(f"decoder_{field}", encoder, self.get(f"decoder_{field}"))
        self.activation()
        self.number("d_model", MAX_DIM)

    def _require(self, name: str, expected: Any, found: Any) -> None:
        if found != expected:
            raise ImportedModelError(
                f"{self._file}: {name} must be {expected!r}. Received: {show(found)}: we have no such part."
            )


class _Weights:
    """The weights by PyTorch's names, as a `LayerReader`. Reports weights that were not read."""

    def __init__(self, values: dict[str, np.ndarray], directory: pathlib.Path) -> None:
        self._values, self._directory = values, directory
        self._read: set[str] = set()

    def attention(self, stack: str, layer: int, kind: str) -> dict[str, Linear]:
        name = f"model.{stack}.layers.{layer}.{_ATTENTION[kind]}"
        return {part: self._linear(f"{name}.{theirs}") for part, theirs in _PARTS.items()}

    def feed_forward(self, stack: str, layer: int) -> dict[str, Linear]:
        name = f"model.{stack}.layers.{layer}"
        return {"inner": self._linear(f"{name}.fc1"), "outer": self._linear(f"{name}.fc2")}

    def norm(self, stack: str, layer: int, sublayer: str) -> tuple[np.ndarray, np.ndarray]:
        part = f"{_ATTENTION[sublayer]}_layer_norm" if sublayer in _ATTENTION else "final_layer_norm"
        name = f"model.{stack}.layers.{layer}.{part}"
        return self.first(1, f"{name}.weight"), self.first(1, f"{name}.bias")

    def first(self, rank: int | None, *names: str, optional: bool = False) -> Any:
        """The first of these weights that there is, as a float32 array; None: there is none, and `optional`.

        The others count as read, because they are the same.
        """
        found = [name for name in names if name in self._values]
        self._read |= set(found)
        if not found:
            if optional:
                return None
            raise ImportedModelError(f"{self._directory}: the weights lack {names[0]}; the file is of another model.")
        value = self._values[found[0]]
        if value.dtype.kind != "f" or 0 in value.shape:
            raise ImportedModelError(
                f"{self._directory}: expected {found[0]} as floating-point numbers. Received: {value.dtype} of shape "
                f"{value.shape}."
            )
        value = np.asarray(value, np.float32)
        if rank is not None and value.ndim != rank:
            raise ImportedModelError(f"{self._directory}: {found[0]} has the shape {value.shape}.")
        return value

    def check_all_read(self) -> None:
        unread = sorted(name for name in self._values.keys() - self._read if name != "model.shared.weight")
        if unread:
            raise ImportedModelError(
                f"{self._directory}: the weights have a part that we do not have: {unread[0][:80]}."
            )

    def _linear(self, name: str) -> Linear:
        return self.first(2, f"{name}.weight").T, self.first(1, f"{name}.bias", optional=True)


def _positions(config: _Settings, weights: _Weights, tensors: dict) -> dict:
    """Static positions are usually not in the file, for they are computed: "marian" by our name."""
    names = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]
    tables = [weights.first(2, name, optional=True) for name in names]
    if all(table is None for table in tables) and config.flag("static_position_embeddings", True):
        return {"positions": "marian"}
    source, target = (weights.first(2, name) for name in names)
    return position_fields(source, target, tensors, config.number("d_model", MAX_DIM))


def _vocabularies(directory: pathlib.Path, config: _Settings, size: int) -> tuple[Vocabulary, Vocabulary]:
    source = _vocabulary(directory / "vocab.json", config, size)
    if (separate := directory / "target_vocab.json").is_file() and not config.flag(
        "share_encoder_decoder_embeddings", True
    ):
        return source, _vocabulary(separate, config, config.number("decoder_vocab_size", 1 << 24))
    return source, source


def _vocabulary(file: pathlib.Path, config: _Settings, size: int) -> Vocabulary:
    """vocab.json maps tokens to rows; the special rows are those that config.json names."""
    rows = read_json(file)
    numbered = all(type(row) is int and 0 <= row < size for row in rows.values())
    if not rows or not numbered or len(set(rows.values())) != len(rows):
        raise ImportedModelError(f"{file}: expected each token with a row of its own, from 0 to {size - 1}.")
    tokens = [f"<row {row}>" for row in range(max(rows.values()) + 1)]
    for token, row in rows.items():
        tokens[row] = token
    found = vocabulary(tokens, str(file))
    ends, pad = config.get("eos_token_id"), config.get("pad_token_id")
    start = config.get("decoder_start_token_id", pad)
    for name, row in (("eos_token_id", ends), ("pad_token_id", pad), ("decoder_start_token_id", start)):
        if type(row) is not int or not 0 <= row < len(tokens):
            raise ImportedModelError(f"{file}: config.json's {name} must be a row of it. Received: {show(row)}.")
    return Vocabulary(found.tokens, ends, found.unknown, pad, start)


def _search(directory: pathlib.Path, config: _Settings) -> dict:
    """The settings of `generate`: in generation_config.json or, in older folders, in config.json; else its defaults."""
    file = directory / "generation_config.json"
    stated = _Settings(read_json(file), file) if file.is_file() else config
    name = str(file if file.is_file() else directory / "config.json")
    return search_settings(stated.get("num_beams", 1), stated.get("length_penalty", 1.0), name)


def _languages(directory: pathlib.Path) -> tuple[str | None, str | None]:
    file = directory / "tokenizer_config.json"
    settings = read_json(file) if file.is_file() else {}
    return language_code(settings.get("source_lang")), language_code(settings.get("target_lang"))


def _licence(directory: pathlib.Path) -> str | None:
    """The licence in the front matter of the model card, README.md."""
    lines = first_lines(directory / "README.md")
    named = [line.partition(":")[2].strip() for line in lines[:60] if line.lower().startswith(("license:", "licence:"))]
    return named[0][:300] if named and named[0] else None
