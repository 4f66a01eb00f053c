"""What the encoder's and the decoder's layers and stacks have in common: their arguments and the residual path."""

import keras

from tf_transformer.layers._feed_forward import FeedForward
from tf_transformer.layers._multi_head_attention import MultiHeadAttention

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
    "use_bias",
    "block_size",
    "transposed_kernels",
)


class Block(keras.layers.Layer):
    """Base of the layers and stacks. The defaults are the paper's base model.

    Args:
        num_heads, key_dim, value_dim: of the attention (h, d_k, d_v).
        feed_forward_dim: d_ff.
        dropout: on the output of each sub-layer (section 5.4).
        attention_dropout, feed_forward_dropout: inside the sub-layers; the paper states none.
        activation: of the feed-forward network, "relu", "gelu" or "swish".
        norm: "post" (the paper) or "pre".
        norm_epsilon: of the layer normalisation.
        use_bias: in the attention's projections.
        block_size: keys a block in blockwise attention; None: plain attention.
        transposed_kernels: whether kernels are kept as (out, in), for decoding on CPUs; see `Projection`.
    """

    def __init__(
        self,
        num_heads=8,
        key_dim=64,
        value_dim=64,
        feed_forward_dim=2048,
        dropout=0.1,
        attention_dropout=0.0,
        feed_forward_dropout=0.0,
        activation="relu",
        norm="post",
        norm_epsilon=1e-6,
        use_bias=True,
        block_size=None,
        transposed_kernels=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if norm not in ("post", "pre"):
            raise ValueError(f"{type(self).__name__}'s norm must be 'post' or 'pre', not {norm!r}.")
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.feed_forward_dim = feed_forward_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.feed_forward_dropout = feed_forward_dropout
        self.activation = activation
        self.norm = norm
        self.norm_epsilon = norm_epsilon
        self.use_bias = use_bias
        self.block_size = block_size
        self.transposed_kernels = transposed_kernels
        self.supports_masking = True

    def block_arguments(self) -> dict:
        """The arguments above by name, for the layers of a stack and for `get_config`."""
        return {name: getattr(self, name) for name in BLOCK_ARGUMENTS}

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask

    def compute_output_spec(self, *args, **kwargs):
        # Traced, because `return_attention` changes the structure of what is returned.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return super().get_config() | self.block_arguments()

    def _new_norm(self, name, input_shape):
        layer = keras.layers.LayerNormalization(epsilon=self.norm_epsilon, dtype=self.dtype_policy, name=name)
        layer.build(input_shape)
        return layer

    def _new_dropout(self, name):
        return keras.layers.Dropout(self.dropout, dtype=self.dtype_policy, name=name)


class SublayersBlock(Block):
    """Base of one layer: sub-layers, each with its residual connection and normalisation (section 3.1)."""

    def _before(self, x, norm):
        """What a sub-layer sees of `x`."""
        return norm(x) if self.norm == "pre" else x

    def _after(self, x, output, norm, dropout, training=None):
        """The residual sum: LayerNorm(x + Dropout(output)) in the paper, x + Dropout(output) with pre-norm."""
        total = x + dropout(output, training=training)
        return total if self.norm == "pre" else norm(total)

    def _attention(self, attention, *args, return_attention, **kwargs):
        """The output of an attention layer, and its weights or None."""
        result = attention(*args, return_attention=return_attention, **kwargs)
        return result if return_attention else (result, None)

    def _new_attention(self, name, query_shape, value_shape):
        layer = MultiHeadAttention(
            self.num_heads,
            self.key_dim,
            self.value_dim,
            self.use_bias,
            self.attention_dropout,
            self.block_size,
            self.transposed_kernels,
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build(query_shape, value_shape)
        return layer

    def _new_feed_forward(self, input_shape):
        layer = FeedForward(
            self.feed_forward_dim,
            self.activation,
            self.feed_forward_dropout,
            self.transposed_kernels,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        layer.build(input_shape)
        return layer
