"""The layers in the tensors of a Marian model."""

import pathlib

import numpy as np

from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._layer_weights import Linear

_ATTENTION = {"self_attention": "self", "cross_attention": "context"}
_NORMS = {"feed_forward": "ffn_ffn", "ssru": "rnn_ffn"}
_PRE_NORMS = _NORMS | {"ssru": "rnn"}
_PARTS = {"query": "q", "key": "k", "value": "v", "output": "o"}


class MarianLayers:
    """Reader of the arrays by Marian's names, such as `encoder_l1_self_Wq`. Reports arrays that were not read.

    Kernels are (in, out), like ours; biases and norms are (1, D).

    Args:
        pre_norm: whether the norms are before the sub-layers, where they have other names.
    """

    def __init__(self, arrays: dict[str, np.ndarray], file: pathlib.Path, pre_norm: bool = False) -> None:
        self._arrays, self._file, self._pre_norm = arrays, file, pre_norm
        self._read: set[str] = set()

    def attention(self, stack: str, layer: int, kind: str) -> dict[str, Linear]:
        name = f"{stack}_l{layer + 1}_{_ATTENTION[kind]}"
        return {part: self._linear(name, theirs) for part, theirs in _PARTS.items()}

    def ssru(self, layer: int) -> dict[str, Linear]:
        name = f"decoder_l{layer + 1}_rnn"
        return {"input": (self._matrix(f"{name}_W"), None), "forget": self._linear(name, "f")}

    def feed_forward(self, stack: str, layer: int) -> dict[str, Linear]:
        name = f"{stack}_l{layer + 1}_ffn"
        return {"inner": self._linear(name, "1"), "outer": self._linear(name, "2")}

    def norm(self, stack: str, layer: int, sublayer: str) -> tuple[np.ndarray, np.ndarray]:
        names, suffix = (_PRE_NORMS, "_pre") if self._pre_norm else (_NORMS, "")
        part = f"{_ATTENTION[sublayer]}_Wo" if sublayer in _ATTENTION else names[sublayer]
        name = f"{stack}_l{layer + 1}_{part}"
        return self._vector(f"{name}_ln_scale{suffix}"), self._vector(f"{name}_ln_bias{suffix}")

    def final_norm(self, stack: str) -> tuple[np.ndarray, np.ndarray]:
        return self._vector(f"{stack}_top_ln_scale"), self._vector(f"{stack}_top_ln_bias")

    def table(self, *names: str) -> np.ndarray:
        """The first of these embeddings (V, D) that there is."""
        name = next((name for name in names if name in self._arrays), names[-1])
        return self._matrix(name)

    def output(self, target_table: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The transposed projection to logits (V, D), that of the target's embedding where it has none of its own."""
        bias = self._vector("decoder_ff_logit_out_b") if "decoder_ff_logit_out_b" in self._arrays else None
        if "decoder_ff_logit_out_Wt" in self._arrays:
            return self._matrix("decoder_ff_logit_out_Wt"), bias
        if "decoder_ff_logit_out_W" in self._arrays:
            return np.ascontiguousarray(self._matrix("decoder_ff_logit_out_W").T), bias
        return target_table, bias

    def optional(self, name: str) -> np.ndarray | None:
        return self._matrix(name) if name in self._arrays else None

    def check_all_read(self) -> None:
        unread = sorted(name for name in self._arrays.keys() - self._read if not name.startswith("special:"))
        if unread:
            raise ImportedModelError(
                f"{self._file}: expected the parts of our Transformer. Received: {unread[0][:80]}. Such a model cannot "
                "be imported."
            )

    def _linear(self, name: str, part: str) -> Linear:
        bias = f"{name}_b{part}"
        return self._matrix(f"{name}_W{part}"), self._vector(bias) if bias in self._arrays else None

    def _matrix(self, name: str) -> np.ndarray:
        value = self._array(name)
        if value.ndim != 2:
            raise ImportedModelError(f"{self._file}: expected a matrix as {name}. Received: shape {value.shape}.")
        return value

    def _vector(self, name: str) -> np.ndarray:
        value = self._array(name)
        if value.size != max(value.shape, default=0):
            raise ImportedModelError(f"{self._file}: expected a vector as {name}. Received: shape {value.shape}.")
        return value.reshape(-1)

    def _array(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise ImportedModelError(
                f"{self._file}: expected {name}. Received: a model without it. The file is truncated, or of another "
                "kind."
            )
        if self._arrays[name].dtype not in (np.float32, np.float16):
            raise ImportedModelError(
                f"{self._file}: expected float32 or float16 as the type of {name}. Received: "
                f"{self._arrays[name].dtype}. Get the model as it was before it was packed for Marian's fast decoders."
            )
        self._read.add(name)
        return self._arrays[name].astype(np.float32)
