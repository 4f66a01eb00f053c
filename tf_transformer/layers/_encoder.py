"""Encoder (section 3.1): a stack of layers of self-attention and feed-forward network."""

from typing import Any

import keras

from tf_transformer.layers._arguments import check_sizes
from tf_transformer.layers._attention import first_mask
from tf_transformer.layers._block import Block, SublayersBlock


@keras.saving.register_keras_serializable(package="tf_transformer")
class EncoderLayer(SublayersBlock):
    """Self-attention and a feed-forward network, each with residual connection and normalization.

    The Keras mask of the inputs (B, S) hides padded keys and passes through. Constructor arguments: see `Encoder`.

    Call arguments:
        inputs: (B, S, D).
        attention_mask: boolean (B, S, S) or (S, S), True = may attend; combined with the Keras mask. For packed rows.
        return_attention_scores: whether to return the attention weights (B, H, S, S), too.
        training: whether dropout is active.

    Returns:
        (B, S, D), or a tuple of it and the attention weights.

    Example:
        >>> EncoderLayer()(keras.ops.ones((2, 5, 512))).shape
        TensorShape([2, 5, 512])
    """

    def build(self, input_shape: tuple) -> None:
        self.self_attention = self._new_attention("self_attention", input_shape, input_shape)
        self.feed_forward = self._new_feed_forward(input_shape)
        self.self_attention_norm = self._new_norm("self_attention_norm", input_shape)
        self.feed_forward_norm = self._new_norm("feed_forward_norm", input_shape)
        self._self_attention_dropout = self._new_dropout("self_attention_dropout")
        self._feed_forward_dropout = self._new_dropout("feed_forward_dropout")

    def call(
        self,
        inputs: Any,
        mask: Any = None,
        inputs_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        x, mask = inputs, first_mask(mask, inputs_mask)
        seen = self._before(x, self.self_attention_norm)
        attended, weights = self._attention(
            self.self_attention,
            seen,
            seen,
            query_mask=mask,
            value_mask=mask,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        x = self._after(x, attended, self.self_attention_norm, self._self_attention_dropout, training)
        transformed = self.feed_forward(self._before(x, self.feed_forward_norm), training=training)
        x = self._after(x, transformed, self.feed_forward_norm, self._feed_forward_dropout, training)
        return (x, weights) if return_attention_scores else x

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape


@keras.saving.register_keras_serializable(package="tf_transformer")
class Encoder(Block):
    """Stack of encoder layers, with a final normalization if pre-norm.

    It takes vectors, not ids: with an embedding in front it is the paper's encoder, or BERT's. Masks as in
    `EncoderLayer`.

    Args:
        num_layers: number of layers (N).
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
        inputs: (B, S, D).
        attention_mask: boolean (B, S, S) or (S, S), True = may attend.
        return_attention_scores: whether to return the attention weights (B, H, S, S) of all layers, too.
        training: whether dropout is active.

    Returns:
        (B, S, D), or a tuple of it and the list of the layers' attention weights.

    Example:
        >>> Encoder(num_layers=2)(keras.ops.ones((2, 5, 512))).shape
        TensorShape([2, 5, 512])
    """

    def __init__(self, num_layers: int = 6, **kwargs: Any):
        super().__init__(**kwargs)
        check_sizes("Encoder", num_layers=num_layers)
        self.num_layers = num_layers

    def build(self, input_shape: tuple) -> None:
        self.layers = [
            EncoderLayer(**self.block_arguments(), dtype=self.dtype_policy, name=f"layer_{index}")
            for index in range(self.num_layers)
        ]
        for layer in self.layers:
            layer.build(input_shape)
        self.final_norm = self._new_norm("final_norm", input_shape) if self.norm == "pre" else None

    def call(
        self,
        inputs: Any,
        mask: Any = None,
        inputs_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        x, weights, mask = inputs, [], first_mask(mask, inputs_mask)
        for layer in self.layers:
            x = layer(
                x,
                mask=mask,
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                x, layer_weights = x
                weights.append(layer_weights)
        x = self.final_norm(x) if self.final_norm else x
        return (x, weights) if return_attention_scores else x

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"num_layers": self.num_layers}
