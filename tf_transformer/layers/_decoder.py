"""The decoder (section 3.1): masked self-attention, attention to the encoder's output, feed-forward network."""

import keras

from tf_transformer.layers._attention import first_mask
from tf_transformer.layers._block import Block, SublayersBlock


@keras.saving.register_keras_serializable(package="tf_transformer")
class DecoderLayer(SublayersBlock):
    """Causal self-attention, cross-attention and a feed-forward network, each with residual and normalisation.

    The Keras masks of both inputs hide padded keys; that of `inputs` passes through. Arguments: see `Block`, and

        cross_attention: False leaves the middle sub-layer out, as in a decoder-only model (GPT's).

    Call arguments:
        inputs: (B, T, D).
        memory: (B, S, M), the encoder's output.
        self_attention_mask: boolean (B, T, T), on top of causality; for packed rows.
        cross_attention_mask: boolean (B, T, S); for packed rows.
        return_attention: whether {"self": (B, H, T, T), "cross": (B, H, T, S)} is returned too.

    Returns:
        (B, T, D), or this and the weights.

    Example:
        >>> DecoderLayer()(keras.ops.ones((2, 5, 512)), keras.ops.ones((2, 7, 512))).shape
        TensorShape([2, 5, 512])
    """

    def __init__(self, cross_attention=True, **kwargs):
        super().__init__(**kwargs)
        self.cross_attention = cross_attention

    def build(self, inputs_shape, memory_shape=None):
        if self.cross_attention and memory_shape is None:
            raise ValueError(f"{self.name} needs the encoder's output; without one, set cross_attention=False.")
        self.causal_attention = self._new_attention("self_attention", inputs_shape, inputs_shape)
        self.self_attention_norm = self._new_norm("self_attention_norm", inputs_shape)
        self._self_attention_dropout = self._new_dropout("self_attention_dropout")
        if self.cross_attention:
            self.memory_attention = self._new_attention("cross_attention", inputs_shape, memory_shape)
            self.cross_attention_norm = self._new_norm("cross_attention_norm", inputs_shape)
            self._cross_attention_dropout = self._new_dropout("cross_attention_dropout")
        self.feed_forward = self._new_feed_forward(inputs_shape)
        self.feed_forward_norm = self._new_norm("feed_forward_norm", inputs_shape)
        self._feed_forward_dropout = self._new_dropout("feed_forward_dropout")

    def call(
        self,
        inputs,
        memory=None,
        mask=None,
        inputs_mask=None,
        memory_mask=None,
        self_attention_mask=None,
        cross_attention_mask=None,
        return_attention=False,
        training=None,
    ):
        x, weights = inputs, {}
        attended, weights["self"] = self._attention(
            self.causal_attention,
            self._before(x, self.self_attention_norm),
            attention_mask=self_attention_mask,
            query_mask=first_mask(mask, inputs_mask),
            use_causal_mask=True,
            return_attention=return_attention,
            training=training,
        )
        x = self._after(x, attended, self.self_attention_norm, self._self_attention_dropout, training)
        if self.cross_attention:
            attended, weights["cross"] = self._attention(
                self.memory_attention,
                self._before(x, self.cross_attention_norm),
                memory,
                value_mask=memory_mask,
                attention_mask=cross_attention_mask,
                return_attention=return_attention,
                training=training,
            )
            x = self._after(x, attended, self.cross_attention_norm, self._cross_attention_dropout, training)
        x = self._transform(x, training)
        return (x, weights) if return_attention else x

    def start_cache(self, batch, length, memory=None):
        """What `step` keeps: room for `length` positions, and the keys and values of the encoder's output."""
        cache = {"self": self.causal_attention.empty_cache(batch, length)}
        if self.cross_attention:
            cache["cross"] = self.memory_attention.project(memory)
        return cache

    def step(self, inputs, cache, index, memory_mask=None, self_attention_mask=None):
        """The next positions `index` … of the sequence: (B, N, D) -> (B, N, D) and the new cache."""
        x = inputs
        attended, own = self.causal_attention.step(
            self._before(x, self.self_attention_norm), cache["self"], index, self_attention_mask
        )
        x = self._after(x, attended, self.self_attention_norm, self._self_attention_dropout, False)
        if self.cross_attention:
            query = self._before(x, self.cross_attention_norm)
            attended, _ = self.memory_attention.attend(query, cache["cross"], memory_mask)
            x = self._after(x, attended, self.cross_attention_norm, self._cross_attention_dropout, False)
        return self._transform(x, False), cache | {"self": own}

    def _transform(self, x, training):
        transformed = self.feed_forward(self._before(x, self.feed_forward_norm), training=training)
        return self._after(x, transformed, self.feed_forward_norm, self._feed_forward_dropout, training)

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        return inputs_shape

    def get_config(self):
        return super().get_config() | {"cross_attention": self.cross_attention}


@keras.saving.register_keras_serializable(package="tf_transformer")
class Decoder(Block):
    """`num_layers` decoder layers, and with pre-norm a normalisation at the end.

    It takes vectors, not ids. Masks as in `DecoderLayer`; arguments: `num_layers`, `cross_attention`, then those of
    `Block`.

    Call arguments:
        inputs, memory, self_attention_mask, cross_attention_mask: as in `DecoderLayer`.
        return_attention: whether the list of the layers' weights is returned too.

    Returns:
        (B, T, D), or this and the list.

    Example:
        >>> Decoder(num_layers=2, cross_attention=False)(keras.ops.ones((2, 5, 512))).shape  # GPT's stack
        TensorShape([2, 5, 512])
    """

    def __init__(self, num_layers=6, cross_attention=True, **kwargs):
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.cross_attention = cross_attention

    def build(self, inputs_shape, memory_shape=None):
        self.layers = [
            DecoderLayer(self.cross_attention, **self.block_arguments(), dtype=self.dtype_policy, name=f"layer_{index}")
            for index in range(self.num_layers)
        ]
        for layer in self.layers:
            layer.build(inputs_shape, memory_shape)
        self.final_norm = self._new_norm("final_norm", inputs_shape) if self.norm == "pre" else None

    def call(
        self,
        inputs,
        memory=None,
        mask=None,
        inputs_mask=None,
        memory_mask=None,
        self_attention_mask=None,
        cross_attention_mask=None,
        return_attention=False,
        training=None,
    ):
        x, weights = inputs, []
        for layer in self.layers:
            x = layer(
                x,
                memory,
                inputs_mask=first_mask(mask, inputs_mask),
                memory_mask=memory_mask,
                self_attention_mask=self_attention_mask,
                cross_attention_mask=cross_attention_mask,
                return_attention=return_attention,
                training=training,
            )
            if return_attention:
                x, layer_weights = x
                weights.append(layer_weights)
        x = self.final_norm(x) if self.final_norm else x
        return (x, weights) if return_attention else x

    def start_cache(self, batch, length, memory=None):
        """The layers' caches for `step`, with room for `length` positions."""
        return [layer.start_cache(batch, length, memory) for layer in self.layers]

    def step(self, inputs, cache, index, memory_mask=None, self_attention_mask=None):
        """The next positions `index` … of the sequence: (B, N, D) -> (B, N, D) and the new cache."""
        x, new = inputs, []
        for layer, layer_cache in zip(self.layers, cache):
            x, layer_cache = layer.step(x, layer_cache, index, memory_mask, self_attention_mask)
            new.append(layer_cache)
        return (self.final_norm(x) if self.final_norm else x), new

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        return inputs_shape

    def get_config(self):
        return super().get_config() | {"num_layers": self.num_layers, "cross_attention": self.cross_attention}
