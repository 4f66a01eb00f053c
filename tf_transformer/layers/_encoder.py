"""The encoder (section 3.1): a stack of layers of self-attention and feed-forward network."""

import keras

from tf_transformer.layers._attention import first_mask
from tf_transformer.layers._block import Block, SublayersBlock


@keras.saving.register_keras_serializable(package="tf_transformer")
class EncoderLayer(SublayersBlock):
    """Self-attention and a feed-forward network, each with residual connection and normalisation.

    The Keras mask of the inputs (B, S) hides padded keys and passes through. Arguments: see `Block`.

    Call arguments:
        inputs: (B, S, D).
        attention_mask: boolean (B, S, S), True = may attend; for packed rows, together with the mask.
        return_attention: whether the weights (B, H, S, S) are returned too.

    Returns:
        (B, S, D), or this and the weights.

    Example:
        >>> EncoderLayer()(keras.ops.ones((2, 5, 512))).shape
        TensorShape([2, 5, 512])
    """

    def build(self, input_shape):
        self.self_attention = self._new_attention("self_attention", input_shape, input_shape)
        self.feed_forward = self._new_feed_forward(input_shape)
        self.self_attention_norm = self._new_norm("self_attention_norm", input_shape)
        self.feed_forward_norm = self._new_norm("feed_forward_norm", input_shape)
        self._self_attention_dropout = self._new_dropout("self_attention_dropout")
        self._feed_forward_dropout = self._new_dropout("feed_forward_dropout")

    def call(self, inputs, mask=None, inputs_mask=None, attention_mask=None, return_attention=False, training=None):
        x = inputs
        attended, weights = self._attention(
            self.self_attention,
            self._before(x, self.self_attention_norm),
            attention_mask=attention_mask,
            query_mask=first_mask(mask, inputs_mask),
            return_attention=return_attention,
            training=training,
        )
        x = self._after(x, attended, self.self_attention_norm, self._self_attention_dropout, training)
        transformed = self.feed_forward(self._before(x, self.feed_forward_norm), training=training)
        x = self._after(x, transformed, self.feed_forward_norm, self._feed_forward_dropout, training)
        return (x, weights) if return_attention else x

    def compute_output_shape(self, input_shape):
        return input_shape


@keras.saving.register_keras_serializable(package="tf_transformer")
class Encoder(Block):
    """`num_layers` encoder layers, and with pre-norm a normalisation at the end.

    It takes vectors, not ids: with an embedding in front it is the paper's encoder, or BERT's. Masks as in
    `EncoderLayer`; arguments: `num_layers`, then those of `Block`.

    Call arguments:
        inputs: (B, S, D).
        attention_mask: boolean (B, S, S), True = may attend.
        return_attention: whether the list of the layers' weights (B, H, S, S) is returned too.

    Returns:
        (B, S, D), or this and the list.

    Example:
        >>> Encoder(num_layers=2)(keras.ops.ones((2, 5, 512))).shape
        TensorShape([2, 5, 512])
    """

    def __init__(self, num_layers=6, **kwargs):
        super().__init__(**kwargs)
        self.num_layers = num_layers

    def build(self, input_shape):
        self.layers = [
            EncoderLayer(**self.block_arguments(), dtype=self.dtype_policy, name=f"layer_{index}")
            for index in range(self.num_layers)
        ]
        for layer in self.layers:
            layer.build(input_shape)
        self.final_norm = self._new_norm("final_norm", input_shape) if self.norm == "pre" else None

    def call(self, inputs, mask=None, inputs_mask=None, attention_mask=None, return_attention=False, training=None):
        x, weights, mask = inputs, [], first_mask(mask, inputs_mask)
        for layer in self.layers:
            x = layer(x, mask=mask, attention_mask=attention_mask, return_attention=return_attention, training=training)
            if return_attention:
                x, layer_weights = x
                weights.append(layer_weights)
        x = self.final_norm(x) if self.final_norm else x
        return (x, weights) if return_attention else x

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return super().get_config() | {"num_layers": self.num_layers}
