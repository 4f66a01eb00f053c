"""Our weights in the places where CTranslate2 looks for them."""

from typing import Any

import numpy as np
from ctranslate2.converters.utils import fuse_linear
from ctranslate2.specs import common_spec, transformer_spec

from tf_transformer.config import ModelConfig
from tf_transformer.layers import sinusoidal_encoding

Tensors = dict[str, np.ndarray]

# Keras' gelu is the exact one, with erf.
_ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "swish": common_spec.Activation.SWISH,
}


def transformer_spec_of(config: ModelConfig, tensors: Tensors, num_positions: int) -> transformer_spec.TransformerSpec:
    """CTranslate2's description of a model, without its vocabularies.

    Args:
        config: of the model.
        tensors: its weights by name, as a checkpoint holds them.
        num_positions: rows of the table of positions, for CTranslate2 has none without an end but tensor2tensor's.
    """
    spec = transformer_spec.TransformerSpec.from_config(
        (config.num_layers, config.decoder_layers),
        config.num_heads,
        pre_norm=config.norm == "pre",
        activation=_ACTIVATIONS[config.activation],
        layernorm_embedding=config.embedding_norm,
    )
    spec.config.layer_norm_epsilon = config.norm_epsilon
    converter = _Converter(config, tensors, num_positions)
    converter.fill_encoder(spec.encoder)
    converter.fill_decoder(spec.decoder)
    return spec


class _Converter:
    """Fills the parts of a specification from the weights of one model."""

    def __init__(self, config: ModelConfig, tensors: Tensors, num_positions: int) -> None:
        self._config = config
        self._tensors = tensors
        self._num_positions = num_positions

    def fill_encoder(self, spec: Any) -> None:
        spec.embeddings[0].weight = self._tensors["source_embedding/table"]
        spec.scale_embeddings = self._config.scale_embeddings
        spec.position_encodings.encodings = self._positions("source_positions/table")
        for index, layer in enumerate(spec.layer):
            name = f"encoder/layer_{index}"
            self._fill_attention(layer.self_attention, f"{name}/self_attention", own=True)
            self._fill_feed_forward(layer.ffn, f"{name}/feed_forward")
        self._fill_final_norm(spec, "encoder/final_norm")
        self._fill_embedding_norm(spec, "source_norm")

    def fill_decoder(self, spec: Any) -> None:
        target = {"all": "source_embedding/table"}.get(self._config.tied_embeddings, "target_embedding/table")
        output = "output_embedding/table" if self._config.tied_embeddings == "none" else target
        spec.embeddings.weight = self._tensors[target]
        spec.projection.weight = self._tensors[output]
        if self._config.output_bias:
            spec.projection.bias = self._tensors["output_bias"]
        spec.scale_embeddings = self._config.scale_embeddings
        spec.position_encodings.encodings = self._positions("target_positions/table")
        for index, layer in enumerate(spec.layer):
            name = f"decoder/layer_{index}"
            self._fill_attention(layer.self_attention, f"{name}/self_attention", own=True)
            self._fill_attention(layer.attention, f"{name}/cross_attention", own=False)
            self._fill_feed_forward(layer.ffn, f"{name}/feed_forward")
        self._fill_final_norm(spec, "decoder/final_norm")
        self._fill_embedding_norm(spec, "target_norm")

    def _fill_attention(self, spec: Any, name: str, own: bool) -> None:
        query, key, value = (self._projection(f"{name}/{part}") for part in ("query", "key", "value"))
        if own:
            fuse_linear(spec.linear[0], [query, key, value])
        else:
            fuse_linear(spec.linear[0], [query])
            fuse_linear(spec.linear[1], [key, value])
        output = self._linear(f"{name}/output")
        spec.linear[-1].weight, spec.linear[-1].bias = self._widened(output.weight, axis=1), output.bias
        # Said in full: CTranslate2 would take model_dim / num_heads for the width of the keys.
        spec.queries_scale = np.float32(self._config.key_dim**-0.5)
        self._fill_norm(spec.layer_norm, f"{name}_norm")

    def _projection(self, name: str) -> common_spec.LinearSpec:
        """The projection to queries, keys or values, (H * d, D), with each head as wide as the widest kind."""
        linear = self._linear(name)
        linear.weight = self._widened(linear.weight, axis=0)
        if linear.has_bias():
            linear.bias = self._widened(linear.bias, axis=0)
        return linear

    def _widened(self, array: np.ndarray, axis: int) -> np.ndarray:
        """`array` with zeros behind each head along `axis`.

        CTranslate2 has one width for a head's keys and values. A key of zeros adds nothing to a product, and a
        value of zeros meets rows of zeros in the output projection, so the model stays the same.
        """
        heads, width = self._config.num_heads, max(self._config.key_dim, self._config.value_dim)
        depth = array.shape[axis] // heads
        split = array.reshape(*array.shape[:axis], heads, depth, *array.shape[axis + 1 :])
        padding = [(0, 0)] * split.ndim
        padding[axis + 1] = (0, width - depth)
        return np.pad(split, padding).reshape(*array.shape[:axis], heads * width, *array.shape[axis + 1 :])

    def _fill_feed_forward(self, spec: Any, name: str) -> None:
        for linear, part in ((spec.linear_0, "inner"), (spec.linear_1, "outer")):
            filled = self._linear(f"{name}/{part}")
            linear.weight, linear.bias = filled.weight, filled.bias
        self._fill_norm(spec.layer_norm, f"{name}_norm")

    def _linear(self, name: str) -> common_spec.LinearSpec:
        """A dense layer; CTranslate2 stores its kernel transposed, (out, in)."""
        linear = common_spec.LinearSpec()
        linear.weight = np.ascontiguousarray(self._tensors[f"{name}/kernel"].T)
        if f"{name}/bias" in self._tensors:
            linear.bias = self._tensors[f"{name}/bias"]
        return linear

    def _fill_final_norm(self, spec: Any, name: str) -> None:
        if self._config.norm == "pre":
            self._fill_norm(spec.layer_norm, name)

    def _fill_embedding_norm(self, spec: Any, name: str) -> None:
        if self._config.embedding_norm:
            self._fill_norm(spec.layernorm_embedding, name)

    def _fill_norm(self, spec: Any, name: str) -> None:
        spec.gamma, spec.beta = self._tensors[f"{name}/gamma"], self._tensors[f"{name}/beta"]

    def _positions(self, name: str) -> np.ndarray:
        if self._config.positions == "learned":
            return self._tensors[name]
        positions = np.arange(self._num_positions) + self._config.position_offset
        return np.asarray(sinusoidal_encoding(positions, self._config.model_dim, self._config.positions))
