"""Arguments and residual path that the encoder and decoder layers and stacks share."""

from typing import Any

import keras

from tf_transformer.layers._arguments import check_rates, check_sizes
from tf_transformer.layers._dropout import Dropout
from tf_transformer.layers._feed_forward import FeedForward
from tf_transformer.layers._multi_head_attention import MultiHeadAttention
from tf_transformer.layers._projection import new_initializer
from tf_transformer.layers._ssru import SSRU

BLOCK_ARGUMENTS = (
    "num_heads",
    "key_dim",
    "value_dim",
    "feed_forward_dim",
    "dropout",
    "attention_dropout",
    "feed_forward_dropout",
    "activation",
    "norm",
    "norm_epsilon",
    "attention_bias",
    "attention_block_size",
)
"""Arguments of encoder and decoder that are fields of `ModelConfig`, too."""


class Block(keras.layers.Layer):
    """Base class of the encoder and decoder layers and stacks. The defaults are the paper's base model.

    Args:
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
    """

    def __init__(
        self,
        num_heads: int = 8,
        key_dim: int = 64,
        value_dim: int = 64,
        feed_forward_dim: int = 2048,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        feed_forward_dropout: float = 0.0,
        activation: Any = "relu",
        norm: str = "post",
        norm_epsilon: float = 1e-6,
        attention_bias: bool = True,
        attention_block_size: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        owner = type(self).__name__
        check_sizes(owner, num_heads=num_heads, key_dim=key_dim, value_dim=value_dim, feed_forward_dim=feed_forward_dim)
        if attention_block_size is not None:
            check_sizes(owner, attention_block_size=attention_block_size)
        check_rates(
            owner, dropout=dropout, attention_dropout=attention_dropout, feed_forward_dropout=feed_forward_dropout
        )
        if norm not in ("post", "pre"):
            raise ValueError(f"{owner}'s norm must be 'post' or 'pre'. Received: norm={norm!r}.")
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.feed_forward_dim = feed_forward_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.feed_forward_dropout = feed_forward_dropout
        self.activation = keras.activations.get(activation)
        self.norm = norm
        self.norm_epsilon = norm_epsilon
        self.attention_bias = attention_bias
        self.attention_block_size = attention_block_size
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_masking = True

    def block_arguments(self) -> dict[str, Any]:
        """The arguments above by name, for the layers of a stack."""
        return {name: getattr(self, name) for name in BLOCK_ARGUMENTS} | self._initializers()

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        # Traced, because `return_attention_scores` changes the structure of what is returned.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        serialized = {
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
        return super().get_config() | self.block_arguments() | serialized

    def _initializers(self) -> dict[str, Any]:
        return {
            "kernel_initializer": new_initializer(self.kernel_initializer),
            "bias_initializer": new_initializer(self.bias_initializer),
        }

    def _new_norm(self, name: str, input_shape: tuple) -> keras.layers.Layer:
        layer = keras.layers.LayerNormalization(epsilon=self.norm_epsilon, dtype=self.dtype_policy, name=name)
        layer.build(input_shape)
        return layer

    def _new_dropout(self, name: str) -> keras.layers.Layer:
        return Dropout(self.dropout, dtype=self.dtype_policy, name=name)


class SublayersBlock(Block):
    """Base class of one layer: sub-layers with residual connection and normalization (section 3.1)."""

    def _before(self, x: Any, norm: Any) -> Any:
        """The input of a sub-layer: `x`, normalized with pre-norm."""
        return norm(x) if self.norm == "pre" else x

    def _after(self, x: Any, output: Any, norm: Any, dropout: Any, training: bool | None = None) -> Any:
        """The residual sum: LayerNorm(x + Dropout(output)) in the paper, x + Dropout(output) with pre-norm."""
        total = x + dropout(output, training=training)
        return total if self.norm == "pre" else norm(total)

    def _attention(self, attention: Any, *args: Any, return_attention_scores: bool, **kwargs: Any) -> tuple[Any, Any]:
        """The output of an attention layer, and its weights or None."""
        result = attention(*args, return_attention_scores=return_attention_scores, **kwargs)
        return result if return_attention_scores else (result, None)

    def _new_attention(self, name: str, query_shape: tuple, value_shape: tuple) -> MultiHeadAttention:
        layer = MultiHeadAttention(
            self.num_heads,
            self.key_dim,
            self.value_dim,
            dropout=self.attention_dropout,
            use_bias=self.attention_bias,
            block_size=self.attention_block_size,
            **self._initializers(),
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build(query_shape, value_shape)
        return layer

    def _new_ssru(self, name: str, input_shape: tuple) -> SSRU:
        layer = SSRU(**self._initializers(), dtype=self.dtype_policy, name=name)
        layer.build(input_shape)
        return layer

    def _new_feed_forward(self, input_shape: tuple) -> FeedForward:
        layer = FeedForward(
            self.feed_forward_dim,
            self.activation,
            self.feed_forward_dropout,
            **self._initializers(),
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        layer.build(input_shape)
        return layer
