"""Decoder (section 3.1): causal self-attention, cross-attention to the encoder's output, feed-forward network."""

from typing import Any

import keras

from tf_transformer.layers._arguments import check_sizes
from tf_transformer.layers._attention import first_mask
from tf_transformer.layers._block import Block, SublayersBlock
from tf_transformer.layers._ssru import continues_previous

AUTOREGRESSIONS = ("attention", "ssru")


@keras.saving.register_keras_serializable(package="tf_transformer")
class DecoderLayer(SublayersBlock):
    """Causal self-attention or SSRU, cross-attention and feed-forward network, each with residual and normalization.

    The Keras masks of both inputs hide padded keys; that of `inputs` passes through.

    Args:
        cross_attention: False omits the cross-attention, as in a decoder-only model such as GPT.
        autoregression: "attention" (the paper) or "ssru", a recurrent unit instead of the self-attention.
        **kwargs: as in `Decoder`.

    Call arguments:
        inputs: (B, T, D).
        memory: (B, S, M), the encoder's output.
        self_attention_mask: boolean (B, T, T) or (T, T), combined with the causal mask; for packed rows.
        cross_attention_mask: boolean (B, T, S) or (T, S); for packed rows.
        return_attention_scores: whether to return {"self": (B, H, T, T), "cross": (B, H, T, S)}, too; without "self"
            or "cross" where there is no such attention.
        training: whether dropout is active.

    Returns:
        (B, T, D), or a tuple of it and the attention weights.

    Example:
        >>> DecoderLayer()(keras.ops.ones((2, 5, 512)), keras.ops.ones((2, 7, 512))).shape
        TensorShape([2, 5, 512])
    """

    def __init__(self, cross_attention: bool = True, autoregression: str = "attention", **kwargs: Any):
        super().__init__(**kwargs)
        self.cross_attention = cross_attention
        self.autoregression = _checked_autoregression(self, autoregression)

    def build(self, inputs_shape: tuple, memory_shape: tuple | None = None) -> None:
        _check_memory(self, memory_shape)
        if self.autoregression == "ssru":
            self.ssru = self._new_ssru("ssru", inputs_shape)
            self.ssru_norm = self._new_norm("ssru_norm", inputs_shape)
            self._ssru_dropout = self._new_dropout("ssru_dropout")
        else:
            self.causal_attention = self._new_attention("self_attention", inputs_shape, inputs_shape)
            self.self_attention_norm = self._new_norm("self_attention_norm", inputs_shape)
            self._self_attention_dropout = self._new_dropout("self_attention_dropout")
        if self.cross_attention:
            assert memory_shape is not None
            self.memory_attention = self._new_attention("cross_attention", inputs_shape, memory_shape)
            self.cross_attention_norm = self._new_norm("cross_attention_norm", inputs_shape)
            self._cross_attention_dropout = self._new_dropout("cross_attention_dropout")
        self.feed_forward = self._new_feed_forward(inputs_shape)
        self.feed_forward_norm = self._new_norm("feed_forward_norm", inputs_shape)
        self._feed_forward_dropout = self._new_dropout("feed_forward_dropout")

    def call(
        self,
        inputs: Any,
        memory: Any = None,
        mask: Any = None,
        inputs_mask: Any = None,
        memory_mask: Any = None,
        self_attention_mask: Any = None,
        cross_attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        _check_memory(self, memory)
        mask, weights = first_mask(mask, inputs_mask), dict[str, Any]()
        if self.autoregression == "ssru":
            x = self._recur(inputs, self_attention_mask, training)
        else:
            x, weights = self._attend_to_past(inputs, mask, self_attention_mask, return_attention_scores, training)
        if self.cross_attention:
            attended, weights["cross"] = self._attention(
                self.memory_attention,
                self._before(x, self.cross_attention_norm),
                memory,
                query_mask=mask,
                value_mask=memory_mask,
                attention_mask=cross_attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            x = self._after(x, attended, self.cross_attention_norm, self._cross_attention_dropout, training)
        transformed = self.feed_forward(self._before(x, self.feed_forward_norm), training=training)
        x = self._after(x, transformed, self.feed_forward_norm, self._feed_forward_dropout, training)
        return (x, weights) if return_attention_scores else x

    def _recur(self, x: Any, self_attention_mask: Any, training: bool | None) -> Any:
        """The SSRU as the first sub-layer; the mask tells where the sequences of packed rows begin."""
        continues = None if self_attention_mask is None else continues_previous(self_attention_mask)
        output = self.ssru(self._before(x, self.ssru_norm), continues=continues)
        return self._after(x, output, self.ssru_norm, self._ssru_dropout, training)

    def _attend_to_past(
        self, x: Any, mask: Any, self_attention_mask: Any, return_attention_scores: bool, training: bool | None
    ) -> tuple[Any, dict[str, Any]]:
        """The causal self-attention as the first sub-layer, and its weights."""
        seen = self._before(x, self.self_attention_norm)
        attended, weights = self._attention(
            self.causal_attention,
            seen,
            seen,
            query_mask=mask,
            value_mask=mask,
            attention_mask=self_attention_mask,
            use_causal_mask=True,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        x = self._after(x, attended, self.self_attention_norm, self._self_attention_dropout, training)
        return x, {"self": weights}

    def compute_output_shape(self, inputs_shape: tuple, memory_shape: tuple | None = None) -> tuple:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"cross_attention": self.cross_attention, "autoregression": self.autoregression}


def _check_memory(layer: Any, memory: Any) -> None:
    """Reject a missing `memory` (the tensor or its shape), and one that would be ignored."""
    if layer.cross_attention and memory is None:
        raise ValueError(
            f"{layer.name} needs `memory`, the encoder's output (B, S, M). Received: memory=None. "
            "For a decoder without an encoder set cross_attention=False."
        )
    if not layer.cross_attention and memory is not None:
        raise ValueError(
            f"{layer.name} has no cross-attention, so it expects no `memory`. Received: a memory of shape "
            f"{tuple(getattr(memory, 'shape', memory))}. Leave it out, or set cross_attention=True."
        )


def _checked_autoregression(layer: Block, autoregression: str) -> str:
    if autoregression not in AUTOREGRESSIONS:
        raise ValueError(
            f"{type(layer).__name__}'s autoregression must be one of {AUTOREGRESSIONS}. Received: "
            f"autoregression={autoregression!r}."
        )
    return autoregression


@keras.saving.register_keras_serializable(package="tf_transformer")
class Decoder(Block):
    """Stack of decoder layers, with a final normalization if pre-norm.

    It takes vectors, not ids. Masks as in `DecoderLayer`. `decoding.DecoderStep` runs it one position at a time.

    Args:
        num_layers: number of layers (N).
        cross_attention: False omits the cross-attention, as in a decoder-only model such as GPT.
        autoregression: "attention" (the paper) or "ssru", a recurrent unit instead of the self-attention.
        num_heads, key_dim, value_dim: of the attention (h, d_k, d_v).
        feed_forward_dim: width of the feed-forward network's hidden layer (d_ff).
        dropout: rate on the output of each sub-layer (section 5.4).
        attention_dropout, feed_forward_dropout: rates inside the sub-layers; the paper states none.
        activation: of the feed-forward network: name or callable, "relu" in the paper.
        norm: "post" (the paper) or "pre".
        norm_epsilon: of the layer normalization.
        attention_bias: whether the projections of the attention have a bias.
        attention_block_size: keys per block of blockwise attention; None: plain attention.
        kernel_initializer, bias_initializer: of all projections.

    Call arguments:
        inputs, memory, self_attention_mask, cross_attention_mask: as in `DecoderLayer`.
        return_attention_scores: whether to return the attention weights of all layers, too.
        training: whether dropout is active.

    Returns:
        (B, T, D), or a tuple of it and a list with {"self": …, "cross": …} per layer.

    Example:
        >>> Decoder(num_layers=2, cross_attention=False)(keras.ops.ones((2, 5, 512))).shape  # GPT's stack
        TensorShape([2, 5, 512])
    """

    def __init__(
        self, num_layers: int = 6, cross_attention: bool = True, autoregression: str = "attention", **kwargs: Any
    ):
        super().__init__(**kwargs)
        check_sizes("Decoder", num_layers=num_layers)
        self.num_layers = num_layers
        self.cross_attention = cross_attention
        self.autoregression = _checked_autoregression(self, autoregression)

    def build(self, inputs_shape: tuple, memory_shape: tuple | None = None) -> None:
        self.layers = [
            DecoderLayer(
                self.cross_attention,
                self.autoregression,
                **self.block_arguments(),
                dtype=self.dtype_policy,
                name=f"layer_{index}",
            )
            for index in range(self.num_layers)
        ]
        for layer in self.layers:
            layer.build(inputs_shape, memory_shape)
        self.final_norm = self._new_norm("final_norm", inputs_shape) if self.norm == "pre" else None

    def call(
        self,
        inputs: Any,
        memory: Any = None,
        mask: Any = None,
        inputs_mask: Any = None,
        memory_mask: Any = None,
        self_attention_mask: Any = None,
        cross_attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        x, weights = inputs, []
        for layer in self.layers:
            x = layer(
                x,
                memory,
                inputs_mask=first_mask(mask, inputs_mask),
                memory_mask=memory_mask,
                self_attention_mask=self_attention_mask,
                cross_attention_mask=cross_attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                x, layer_weights = x
                weights.append(layer_weights)
        x = self.final_norm(x) if self.final_norm else x
        return (x, weights) if return_attention_scores else x

    def compute_output_shape(self, inputs_shape: tuple, memory_shape: tuple | None = None) -> tuple:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "num_layers": self.num_layers,
            "cross_attention": self.cross_attention,
            "autoregression": self.autoregression,
        }
