"""The weights of the two stacks under our names, for all formats."""

from typing import Any, Protocol, cast

import numpy as np

from tf_transformer.importing._external_model import ImportedModelError

Linear = tuple[np.ndarray, np.ndarray | None]
"""A kernel (in, out) and a bias (out,) or None."""

# x * sigmoid(1.702 x), an approximation of gelu, is swish(1.702 x) / 1.702.
GELU_SIGMOID = 1.702


class LayerReader(Protocol):
    """Reader of the layers of one format. `stack` is "encoder" or "decoder", layers count from 0."""

    def attention(self, stack: str, layer: int, kind: str) -> dict[str, Linear]:
        """query, key, value and output of a "self_attention" or "cross_attention"."""

    def feed_forward(self, stack: str, layer: int) -> dict[str, Linear]:
        """inner and outer."""

    def norm(self, stack: str, layer: int, sublayer: str) -> tuple[np.ndarray, np.ndarray]:
        """gamma and beta beside "self_attention", "ssru", "cross_attention" or "feed_forward"."""


class PreNormReader(LayerReader, Protocol):
    """A reader of a format whose stacks may end in a norm."""

    def final_norm(self, stack: str) -> tuple[np.ndarray, np.ndarray]:
        """gamma and beta at the end of a stack with pre-norm."""


class SSRUReader(LayerReader, Protocol):
    """A reader of a format whose decoders may have an SSRU instead of self-attention."""

    def ssru(self, layer: int) -> dict[str, Linear]:
        """input, without a bias, and forget."""


def layer_tensors(
    reader: LayerReader, depths: dict[str, int], pre_norm: bool, ssru: bool = False
) -> tuple[dict[str, np.ndarray], bool]:
    """All weights of the stacks by our names, and whether the attention's projections have biases.

    Biases that only some of them lack are zeros.

    Args:
        depths: layers of "encoder" and "decoder".
        pre_norm: whether there are final norms; `reader` is a `PreNormReader` then.
        ssru: whether the decoder has SSRUs instead of self-attention; `reader` is an `SSRUReader` then.
    """
    tensors: dict[str, Any] = {}
    for stack, depth in depths.items():
        for layer in range(depth):
            name = f"{stack}/layer_{layer}"
            for kind in _sublayers(stack, ssru):
                linears = (
                    cast(SSRUReader, reader).ssru(layer) if kind == "ssru" else reader.attention(stack, layer, kind)
                )
                _put_linears(tensors, f"{name}/{kind}", linears)
                _put_norm(tensors, f"{name}/{kind}_norm", reader.norm(stack, layer, kind))
            _put_linears(tensors, f"{name}/feed_forward", reader.feed_forward(stack, layer))
            _put_norm(tensors, f"{name}/feed_forward_norm", reader.norm(stack, layer, "feed_forward"))
        if pre_norm:
            _put_norm(tensors, f"{stack}/final_norm", cast(PreNormReader, reader).final_norm(stack))
    biased = _fill_biases(tensors)
    for name in tensors:  # one by one, so that no second copy of all weights is in memory
        tensors[name] = np.ascontiguousarray(tensors[name], np.float32)
    return tensors, biased


def _sublayers(stack: str, ssru: bool) -> tuple[str, ...]:
    if stack == "encoder":
        return ("self_attention",)
    return ("ssru" if ssru else "self_attention", "cross_attention")


def _fill_biases(tensors: dict) -> bool:
    """Put zeros where a bias is missing; takes those of the attention out where all are. Whether they stay."""
    attention = [name for name in tensors if "attention/" in name and name.endswith("/bias")]
    if all(tensors[name] is None for name in attention):
        for name in attention:
            del tensors[name]
        attention = []
    for name, value in tensors.items():
        if value is None:
            tensors[name] = np.zeros(tensors[name.replace("/bias", "/kernel")].shape[1], np.float32)
    return bool(attention)


def gelu_sigmoid_as_swish(tensors: dict[str, np.ndarray]) -> None:
    """Make feed-forward networks of swish compute what they did with x * sigmoid(1.702 x)."""
    for name in tensors:
        if "/feed_forward/inner/" in name:
            tensors[name] = tensors[name] * np.float32(GELU_SIGMOID)
        elif name.endswith("/feed_forward/outer/kernel"):
            tensors[name] = tensors[name] / np.float32(GELU_SIGMOID)


def check_tensors(tensors: dict[str, np.ndarray], name: str) -> None:
    """Reject weights that are not finite."""
    for tensor, value in tensors.items():
        if not np.isfinite(value).all():
            raise ImportedModelError(
                f"{name}: expected finite weights. Received: {tensor} with values that are not. Get the file again."
            )


def _put_linears(tensors: dict, name: str, linears: dict[str, Linear]) -> None:
    for part, (kernel, bias) in linears.items():
        tensors[f"{name}/{part}/kernel"] = kernel
        if not name.endswith("/ssru") or part != "input":
            tensors[f"{name}/{part}/bias"] = bias


def _put_norm(tensors: dict, name: str, norm: tuple[np.ndarray, np.ndarray]) -> None:
    tensors[f"{name}/gamma"], tensors[f"{name}/beta"] = norm
