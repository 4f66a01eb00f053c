"""Marian's options in a model's `special:model.yml`: the architecture, checked against what our model has."""

import dataclasses
import pathlib

import numpy as np

from tf_transformer.importing._external_model import MAX_FEED_FORWARD_DIM, MAX_HEADS, MAX_LAYERS, ImportedModelError
from tf_transformer.importing._settings import parse_yaml, show

# In Marian's source, layers of type transformer.
_EPSILON = 1e-6
# What each option must be for the Transformer that we have.
_REQUIRED: dict[str, tuple] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "transformer-preprocess": ("", "n"),
    "transformer-postprocess": ("dan", "da"),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("", "n"),
    "transformer-ffn-activation": ("swish", "relu", "gelu"),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-no-projection": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "transformer-rnn-projection": (False,),
    "transformer-disable-position-embeddings": (False,),
    "transformer-tied-layers": ([],),
    "transformer-pool": (False,),
    "lemma-dim-emb": (0,),
    "input-types": ([],),
    "ulr": (False,),
}
# Before, after and above the layers. The second has its final norm since Marian 1.10, which also corrected its
# self-attention: older versions normalized the queries alone.
_NORMS = {("", "dan", ""): "post", ("n", "da", "n"): "pre"}
# A model that does not say what it is has another default in each version of Marian.
_MUST_BE_SAID = ("type",)


@dataclasses.dataclass(frozen=True)
class MarianOptions:
    """The checked options of a model."""

    depths: dict[str, int]
    heads: int
    feed_forward_dim: int
    activation: str
    ssru: bool
    norm: str

    @property
    def gelu(self) -> bool:
        """Marian's gelu is x * sigmoid(1.702 x)."""
        return self.activation == "gelu"

    @classmethod
    def of(cls, array: np.ndarray | None, file: pathlib.Path) -> "MarianOptions":
        """The options in the array special:model.yml, a text in bytes."""
        values = _parse(array, file)
        for name, allowed in _REQUIRED.items():
            if name not in values and name not in _MUST_BE_SAID:
                continue
            if values.get(name) not in allowed:
                raise ImportedModelError(
                    f"{file}: expected {' or '.join(repr(each) for each in allowed)} as Marian's option {name}. "
                    f"Received: {show(values.get(name))}. Such a model cannot be imported."
                )
        ssru = values.get("transformer-decoder-autoreg") == "rnn"
        if ssru and values.get("dec-cell") != "ssru":
            raise ImportedModelError(
                f"{file}: expected 'ssru' as Marian's option dec-cell. Received: {show(values.get('dec-cell'))}. "
                "Models with other recurrent cells cannot be imported."
            )
        dim = _number(values, "transformer-dim-ffn", 2048, MAX_FEED_FORWARD_DIM, file)
        decoder_dim = _number(values, "transformer-decoder-dim-ffn", 0, MAX_FEED_FORWARD_DIM, file)
        if decoder_dim not in (0, dim):
            raise ImportedModelError(
                f"{file}: expected {dim}, as in the encoder, as transformer-decoder-dim-ffn. Received: {decoder_dim}."
            )
        depths = {stack: _number(values, f"{stack[:3]}-depth", 1, MAX_LAYERS, file) for stack in ("encoder", "decoder")}
        heads = _number(values, "transformer-heads", 8, MAX_HEADS, file)
        if not heads:
            raise ImportedModelError(f"{file}: expected Marian's option transformer-heads above 0. Received: 0.")
        activation = values.get("transformer-ffn-activation", "swish")
        return cls(depths, heads, dim, activation, ssru, _norm(values, file))

    def architecture(self, dim: int) -> dict:
        """Fields of `ModelConfig`."""
        return {
            "num_layers": self.depths["encoder"],
            "num_decoder_layers": None if len(set(self.depths.values())) == 1 else self.depths["decoder"],
            "num_heads": self.heads,
            "model_dim": dim,
            "feed_forward_dim": self.feed_forward_dim,
            "key_dim": dim // self.heads,
            "value_dim": dim // self.heads,
            "activation": "swish" if self.gelu else self.activation,
            "norm": self.norm,
            "norm_epsilon": _EPSILON,
            "scale_embeddings": True,
            "decoder_autoregression": "ssru" if self.ssru else "attention",
        }


def _norm(values: dict, file: pathlib.Path) -> str:
    before, after = values.get("transformer-preprocess", ""), values.get("transformer-postprocess", "dan")
    top = values.get("transformer-postprocess-top", "")
    if (before, after, top) not in _NORMS:
        raise ImportedModelError(
            f"{file}: expected Marian's options transformer-preprocess, -postprocess and -postprocess-top as '', 'dan' "
            f"and '', or as 'n', 'da' and 'n'. Received: {before!r}, {after!r} and {top!r}: we have no such norms."
        )
    return _NORMS[before, after, top]


def _parse(array: np.ndarray | None, file: pathlib.Path) -> dict:
    if array is None:
        raise ImportedModelError(
            f"{file}: expected special:model.yml. Received: a file without it, which Marian did not write."
        )
    return parse_yaml(array.tobytes().rstrip(b"\0"), f"{file}: special:model.yml")


def _number(values: dict, name: str, default: int, most: int, file: pathlib.Path) -> int:
    value = values.get(name, default)
    if type(value) is not int or not 0 <= value <= most:
        raise ImportedModelError(
            f"{file}: expected a whole number up to {most} as Marian's option {name}. Received: {show(value)}."
        )
    return value
