"""The layers in the variables of a model.bin."""

import pathlib
import re
from typing import Any

import numpy as np

from tf_transformer.importing._external_model import MAX_HEADS, MAX_LAYERS, ImportedModelError
from tf_transformer.importing._layer_weights import Linear
from tf_transformer.importing.ctranslate2._binary_model import VARIABLES, BinaryModel

_ATTENTION = {"self_attention": "self_attention", "cross_attention": "attention"}
# Flags whose value changes nothing in a model with one source embedding that is not asked for alignments.
_WITHOUT_EFFECT = re.compile(r"(encoder|decoder)/(embeddings_merge|alignment_heads|alignment_layer|scale_alibi)")
# Before revision 5 of the specification these stood for both stacks.
_ONCE_COMMON = ("num_heads", "pre_norm", "activation", "embeddings_merge", "alignment_layer", "alignment_heads")
_MUST_BE_OFF = re.compile(r"(encoder|decoder)/(alibi|alibi_use_positive_positions|multi_query_attention|scale_outputs)")


class CTranslate2Layers:
    """Reader of layers, embeddings and flags. Reports variables that were not read: parts that we do not have."""

    def __init__(self, binary: BinaryModel, file: pathlib.Path) -> None:
        self._variables, self._file = _renamed(binary), file
        self._read = set(VARIABLES)
        self.depths = {stack: self._depth(stack) for stack in ("encoder", "decoder")}
        self._heads = int(self.same("num_heads", 0))
        if not 1 <= self._heads <= MAX_HEADS:
            raise self.error(f"num_heads {self._heads}")
        self._value_dim = 0

    def error(self, what: str) -> ImportedModelError:
        return ImportedModelError(
            f"{self._file}: expected the parts of our Transformer. Received: {what}. Such a model cannot be imported."
        )

    def scalar(self, name: str, default: Any) -> Any:
        value = self._variables.get(name)
        if value is None:
            return default
        if value.ndim:
            raise self.error(f"{name} of shape {value.shape} instead of one number")
        if not np.isfinite(value):
            raise self.error(f"{name} {value}")
        self._read.add(name)
        return value.item()

    def same(self, flag: str, default: Any) -> Any:
        """A flag that encoder and decoder must agree on."""
        values = {stack: self.scalar(f"{stack}/{flag}", default) for stack in ("encoder", "decoder")}
        if len(set(values.values())) > 1:
            raise self.error(f"different {flag} in encoder and decoder: {values}")
        return values["encoder"]

    def dimensions(self, tensors: dict[str, np.ndarray]) -> dict:
        """The fields of `ModelConfig` that follow from shapes."""
        return {
            "num_layers": self.depths["encoder"],
            "num_decoder_layers": None if len(set(self.depths.values())) == 1 else self.depths["decoder"],
            "num_heads": self._heads,
            "model_dim": tensors["encoder/layer_0/feed_forward/inner/kernel"].shape[0],
            "feed_forward_dim": tensors["encoder/layer_0/feed_forward/inner/kernel"].shape[1],
            "key_dim": tensors["encoder/layer_0/self_attention/key/kernel"].shape[1] // self._heads,
            "value_dim": tensors["encoder/layer_0/self_attention/value/kernel"].shape[1] // self._heads,
        }

    def attention(self, stack: str, layer: int, kind: str) -> dict[str, Linear]:
        name = f"{stack}/layer_{layer}/{_ATTENTION[kind]}"
        if kind == "self_attention":
            query, key, value = self._split(f"{name}/linear_0", 3)
            output = self.linear(f"{name}/linear_1")
        else:
            (query,), (key, value) = self._split(f"{name}/linear_0", 1), self._split(f"{name}/linear_1", 2)
            output = self.linear(f"{name}/linear_2")
        found = {"query": query, "key": key, "value": value, "output": output}
        if output[0].shape[0] != value[0].shape[1] or query[0].shape[1] != key[0].shape[1]:
            raise self.error(f"{name} whose projections differ in width")
        return self._unscaled(found, self.scalar(f"{name}/queries_scale", None))

    def feed_forward(self, stack: str, layer: int) -> dict[str, Linear]:
        name = f"{stack}/layer_{layer}/ffn"
        return {"inner": self.linear(f"{name}/linear_0"), "outer": self.linear(f"{name}/linear_1")}

    def norm(self, stack: str, layer: int, sublayer: str) -> tuple[np.ndarray, np.ndarray]:
        part = _ATTENTION.get(sublayer, "ffn")
        return self._norm(f"{stack}/layer_{layer}/{part}/layer_norm")

    def final_norm(self, stack: str) -> tuple[np.ndarray, np.ndarray]:
        return self._norm(f"{stack}/layer_norm")

    def embedding(self, stack: str) -> np.ndarray:
        """(V, D)."""
        name = f"{stack}/embeddings_0/weight"
        return self._tensor(name if name in self._variables else f"{stack}/embeddings/weight", 2)

    def scaled_embeddings(self, dim: int) -> bool:
        """Return whether embeddings are multiplied by the root of `dim`. The variable is a flag or the factor."""
        factor = self.same("scale_embeddings", 1)
        if isinstance(factor, float) and not np.isclose(factor, 1.0) and not np.isclose(factor, dim**0.5):
            raise self.error(f"embeddings multiplied by {factor:g}")
        return not np.isclose(factor, 1.0) if isinstance(factor, float) else bool(factor)

    def positions(self, stack: str) -> np.ndarray | None:
        """The table of positions; None: CTranslate2 computes them."""
        name = f"{stack}/position_encodings/encodings"
        return self._tensor(name, 2) if name in self._variables else None

    def linear(self, name: str) -> Linear:
        """CTranslate2 keeps matrices as (out, in)."""
        kernel = self._tensor(f"{name}/weight", 2).T
        bias = self._tensor(f"{name}/bias", 1) if f"{name}/bias" in self._variables else None
        if bias is not None and bias.shape != kernel.shape[1:]:
            raise self.error(f"{name} with a weight of shape {kernel.shape} and a bias of shape {bias.shape}")
        return kernel, bias

    def check_all_read(self) -> None:
        """Reject a model with variables that none of our layers has."""
        for name in sorted(self._variables.keys() - self._read):
            off = _MUST_BE_OFF.fullmatch(name) and not self._variables[name].any()
            if not off and not _WITHOUT_EFFECT.fullmatch(name):
                raise self.error(name[:80])

    def _split(self, name: str, parts: int) -> list[Linear]:
        kernel, bias = self.linear(name)
        if kernel.shape[1] % (parts * self._heads):
            raise self.error(f"{name} of width {kernel.shape[1]}, which {self._heads} heads do not divide")
        biases = [None] * parts if bias is None else np.split(bias, parts)
        return list(zip(np.split(kernel, parts, axis=1), biases))

    def _unscaled(self, found: dict[str, Linear], scale: float | None) -> dict[str, Linear]:
        """The projections such that queries are scaled by 1 / sqrt(key_dim).

        Where a scale is given, keys may be wider than it says, with zeros: our export does that, and its zeros are
        taken out again. Any other scale goes into the queries' weights.
        """
        if scale is None:
            return found
        width = found["key"][0].shape[1] // self._heads
        if not 1e-6 < scale < 1e6:
            raise self.error(f"queries_scale {scale}")
        key_dim = min(round(scale**-2), width) or width
        narrow = {part: self._narrowed(found[part], key_dim) for part in ("query", "key")}
        keys = {part: linear for part, linear in narrow.items() if linear is not None}
        if len(keys) == len(narrow) and np.isclose(scale, key_dim**-0.5, rtol=1e-6):
            return found | keys | self._narrow_values(found, width)
        kernel, bias = found["query"]
        factor = np.float32(scale * width**0.5)
        return found | {"query": (kernel * factor, None if bias is None else bias * factor)}

    def _narrow_values(self, found: dict[str, Linear], width: int) -> dict[str, Linear]:
        """Values without the zeros behind each head, as narrow as in the first layer."""
        kernel, bias = found["output"]
        heads = kernel.reshape(self._heads, width, -1)
        if not self._value_dim:
            values = found["value"][0].reshape(-1, self._heads, width)
            used = np.flatnonzero(heads.any(axis=(0, 2)) | values.any(axis=(0, 1)))
            self._value_dim = int(used.max()) + 1 if used.size else width
        narrow = self._narrowed(found["value"], self._value_dim)
        if narrow is None or heads[:, self._value_dim :].any():
            raise self.error("heads whose values differ in width between layers")
        return {"value": narrow, "output": (heads[:, : self._value_dim].reshape(-1, kernel.shape[1]), bias)}

    def _narrowed(self, linear: Linear, dim: int) -> Linear | None:
        """Each head truncated to `dim`; None where something else than zeros would be lost."""
        kernel, bias = linear
        heads = kernel.reshape(kernel.shape[0], self._heads, -1)
        biases = np.zeros(kernel.shape[1], np.float32) if bias is None else bias
        biases = biases.reshape(self._heads, -1)
        if heads[..., dim:].any() or biases[:, dim:].any():
            return None
        kept = heads[..., :dim].reshape(kernel.shape[0], -1)
        return kept, None if bias is None else biases[:, :dim].reshape(-1)

    def _norm(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        return self._tensor(f"{name}/gamma", 1), self._tensor(f"{name}/beta", 1)

    def _tensor(self, name: str, rank: int) -> np.ndarray:
        if name not in self._variables:
            raise ImportedModelError(
                f"{self._file}: expected {name}. Received: a model without it. Such a model cannot be imported."
            )
        value = self._variables[name]
        if value.ndim != rank:
            raise self.error(f"{name} of shape {value.shape}")
        self._read.add(name)
        return value

    def _depth(self, stack: str) -> int:
        found = {int(match[1]) for name in self._variables if (match := re.match(rf"{stack}/layer_(\d{{1,3}})/", name))}
        if not found or found != set(range(len(found))) or len(found) > MAX_LAYERS:
            raise self.error(f"{len(found)} layers in the {stack}")
        return len(found)


def _renamed(binary: BinaryModel) -> dict[str, np.ndarray]:
    """The variables of a model under the names that they have since revision 5."""
    variables = dict(binary.variables)
    if binary.revision >= 5:
        return variables
    for name in _ONCE_COMMON:
        if name in variables:
            value = variables.pop(name)
            variables |= {f"{stack}/{name}": value for stack in ("encoder", "decoder")}
    for stack in ("encoder", "decoder"):
        if (older := f"{stack}/embeddings/multiply_by_sqrt_depth") in variables:
            variables[f"{stack}/scale_embeddings"] = variables.pop(older)
    return variables
