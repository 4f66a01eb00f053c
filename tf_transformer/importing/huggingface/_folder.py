"""Shared parts of Hugging Face folders: config.json, weights by PyTorch's names, a model card.

config.json                        the architecture
generation_config.json             the search
model.safetensors                  or tf_model.h5, or pytorch_model.bin
README.md                          the model card, with the licence
"""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_transformer.config import DecodingConfig
from tf_transformer.importing._external_model import (
    MAX_DIM,
    MAX_FEED_FORWARD_DIM,
    MAX_HEADS,
    ImportedModelError,
    search_settings,
)
from tf_transformer.importing._layer_weights import Linear
from tf_transformer.importing._settings import first_lines, read_json, show

# Some files state int(1e30): no limit.
_MAX_LENGTH = 10**31
SHARED = "model.shared.weight"
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
# torch.nn.LayerNorm's, which the models have.
_EPSILON = 1e-5
_ATTENTION = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_PARTS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


class Settings:
    """config.json, with the checks of types and of what we have no part for.

    Attributes:
        file: its path, for messages.
    """

    def __init__(self, values: dict, file: pathlib.Path) -> None:
        self._values, self.file = values, file

    def get(self, name: str, default: Any = None) -> Any:
        value = self._values.get(name)
        return default if value is None else value

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name, default)
        if type(value) is not bool:
            raise ImportedModelError(f"{self.file}: expected true or false as {name}. Received: {show(value)}.")
        return value

    def number(self, name: str, most: int, least: int = 1) -> int:
        value = self._values.get(name)
        if type(value) is not int or not least <= value <= most:
            raise ImportedModelError(
                f"{self.file}: expected a whole number from {least} to {most} as {name}. Received: {show(value)}."
            )
        return value

    def activation(self) -> str:
        name = self.get("activation_function", "gelu")
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            raise ImportedModelError(
                f"{self.file}: expected one of {', '.join(_ACTIVATIONS)} as activation. Received: {show(name)}."
            )
        return _ACTIVATIONS[name]

    def check_stacks(self) -> None:
        """Reject stacks that differ in more than their depth."""
        for field, most in (("attention_heads", MAX_HEADS), ("ffn_dim", MAX_FEED_FORWARD_DIM)):
            encoder = self.number(f"encoder_{field}", most)
            self.require(f"decoder_{field}", encoder, self.get(f"decoder_{field}"))
        self.activation()
        self.number("d_model", MAX_DIM)

    def require(self, name: str, expected: Any, found: Any) -> None:
        if found != expected:
            raise ImportedModelError(
                f"{self.file}: expected {expected!r} as {name}. Received: {show(found)}. Such a model cannot be "
                "imported."
            )

    def architecture(self, depths: dict[str, int], attention_bias: bool, scaled: bool) -> dict:
        """The fields of `ModelConfig` that all families have."""
        heads, dim = self.number("encoder_attention_heads", MAX_HEADS), self.number("d_model", MAX_DIM)
        return {
            "num_layers": depths["encoder"],
            "num_decoder_layers": None if depths["encoder"] == depths["decoder"] else depths["decoder"],
            "num_heads": heads,
            "model_dim": dim,
            "feed_forward_dim": self.number("encoder_ffn_dim", MAX_FEED_FORWARD_DIM),
            "key_dim": dim // heads,
            "value_dim": dim // heads,
            "activation": self.activation(),
            "norm_epsilon": _EPSILON,
            "attention_bias": attention_bias,
            "scale_embeddings": self.flag("scale_embedding", scaled),
        }


class Weights:
    """The weights by PyTorch's names, as a `LayerReader`. Reports weights that were not read."""

    def __init__(self, values: Mapping[str, np.ndarray], directory: pathlib.Path) -> None:
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
        return self.norm_at(f"model.{stack}.layers.{layer}.{part}")

    def final_norm(self, stack: str) -> tuple[np.ndarray, np.ndarray]:
        return self.norm_at(f"model.{stack}.layer_norm")

    def norm_at(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """gamma and beta of a layer normalization."""
        return self.first(1, f"{name}.weight"), self.first(1, f"{name}.bias")

    def embeddings(self, tied: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The tables (V, D) of source, target and output: the same array where they are the same weight."""
        kinds = [["model.encoder.embed_tokens.weight", SHARED], ["model.decoder.embed_tokens.weight", SHARED]]
        kinds.append(["lm_head.weight", *(kinds[1] if tied else [])])
        found: dict[str, np.ndarray] = {}
        tables = []
        for names in kinds:
            name = self._name(names) or names[0]
            if name not in found:
                found[name] = self._once(self.first(2, *names), found)
            tables.append(found[name])
        return tables[0], tables[1], tables[2]

    @staticmethod
    def _once(table: np.ndarray, found: dict[str, np.ndarray]) -> np.ndarray:
        """The table, or an equal one that was found before: files may hold tied weights several times."""
        return next((other for other in found.values() if np.array_equal(other, table)), table)

    def _name(self, names: Sequence[str]) -> str | None:
        """The first of these weights that there is; the others count as read, because they are the same."""
        present = [name for name in names if name in self._values]
        self._read |= set(present)
        return present[0] if present else None

    def ignore(self, *prefixes: str) -> None:
        """Count weights that begin so as read: tables that we compute."""
        self._read |= {name for name in self._values if name.startswith(prefixes)}

    def first(self, rank: int | None, *names: str, optional: bool = False) -> Any:
        """The first of these weights that there is, as a float32 array; None: there is none, and `optional`."""
        name = self._name(names)
        if name is None:
            if optional:
                return None
            raise ImportedModelError(
                f"{self._directory}: expected {names[0]} among the weights. Received: weights of another model. Get "
                "the file again."
            )
        value = self._values[name]
        if value.dtype.kind != "f" or 0 in value.shape:
            raise ImportedModelError(
                f"{self._directory}: expected {name} as floating-point numbers. Received: {value.dtype} of shape "
                f"{value.shape}."
            )
        value = np.asarray(value, np.float32)
        if rank is not None and value.ndim != rank:
            raise ImportedModelError(
                f"{self._directory}: expected {name} of {rank} dimensions. Received: shape {value.shape}."
            )
        return value

    def check_all_read(self) -> None:
        unread = sorted(name for name in self._values.keys() - self._read if name != SHARED)
        if unread:
            raise ImportedModelError(
                f"{self._directory}: expected the weights of our parts. Received: {unread[0][:80]}. Such a model "
                "cannot be imported."
            )

    def _linear(self, name: str) -> Linear:
        return self.first(2, f"{name}.weight").T, self.first(1, f"{name}.bias", optional=True)


def search_of(directory: pathlib.Path, config: Settings, forced: int = 0) -> dict:
    """The settings of `generate`: in generation_config.json or, in older folders, in config.json; else its defaults.

    Args:
        forced: tokens before the text of an output, such as its language. `max_length` counts them and the start.
    """
    file = directory / "generation_config.json"
    stated = Settings(read_json(file), file) if file.is_file() else config
    found = search_settings(stated.get("num_beams", 1), stated.get("length_penalty", 1.0), str(stated.file))
    early = stated.get("early_stopping", False)
    if type(early) is not bool and early != "never":
        raise ImportedModelError(
            f"{stated.file}: expected true, false or 'never' as early_stopping. Received: {show(early)}."
        )
    found["early_stopping"] = early is True
    if stated.get("max_length") is not None:
        longest = stated.number("max_length", _MAX_LENGTH, 2 + forced) - 1 - forced
        found |= {} if longest > DecodingConfig.largest["max_length"] else {"max_length": longest}
    if stated.get("no_repeat_ngram_size"):
        found["no_repeat_ngram"] = stated.number("no_repeat_ngram_size", int(DecodingConfig.largest["no_repeat_ngram"]))
    return found


def licence_of(directory: pathlib.Path) -> str | None:
    """The licence in the front matter of the model card, README.md."""
    lines = first_lines(directory / "README.md")
    named = [line.partition(":")[2].strip() for line in lines[:60] if line.lower().startswith(("license:", "licence:"))]
    return named[0][:300] if named and named[0] else None
