"""The whole model: encoder, decoder, and the embedding that ties them (figure 1 of the paper)."""

import dataclasses

import keras
from keras import ops

from tf_transformer.config import ModelConfig
from tf_transformer.layers import (
    BLOCK_ARGUMENTS,
    Decoder,
    Encoder,
    PositionalEncoding,
    SharedEmbedding,
    padding_mask,
    segment_mask,
)
from tf_transformer.presets import get_preset


@keras.saving.register_keras_serializable(package="tf_transformer")
class Transformer(keras.Model):
    """The encoder-decoder of the paper. Its weights exist as soon as it does.

    Padding in the source is hidden by the ids themselves (`config.pad_id`); in the target causality hides it.

    Args:
        config: a `ModelConfig`.
        transposed_kernels: whether the layers keep their kernels as (out, in), which is faster where a model only
            translates, on a CPU; see `layers.Projection`.

    Call arguments:
        inputs: {"source": (B, S), "target": (B, T)}, integers; `target` is the decoder's input, which begins with
            `config.bos_id`. For packed rows also "source_segments", "target_segments" (0 = padding) and
            "source_positions", "target_positions", shaped like the ids.
        return_attention: whether {"encoder": […], "decoder": […], "cross": […]} is returned too, a list of weights
            (B, H, queries, keys) with an entry a layer.

    Returns:
        Logits (B, T, V), float32; or these and the weights.

    Example:
        >>> model = Transformer.from_preset("tiny", vocab_size=100)
        >>> model({"source": keras.ops.array([[5, 6, 3]]), "target": keras.ops.array([[2, 7]])}).shape
        TensorShape([1, 2, 100])
    """

    def __init__(self, config: ModelConfig, name="transformer", *, transposed_kernels: bool = False, **kwargs):
        super().__init__(name=name, **kwargs)
        self.config = config
        self.transposed_kernels = transposed_kernels
        self.source_embedding = self._new_embedding("source_embedding", config.vocab_size)
        self.target_embedding = self.source_embedding
        if config.tied_embeddings != "all":
            self.target_embedding = self._new_embedding("target_embedding", config.decoder_vocab_size)
        self.output_embedding = self.target_embedding
        if config.tied_embeddings == "none":
            self.output_embedding = self._new_embedding("output_embedding", config.decoder_vocab_size)
        self.source_positions = self._new_positions("source_positions")
        self.target_positions = self._new_positions("target_positions")
        self.source_dropout = keras.layers.Dropout(config.dropout, dtype=self.dtype_policy, name="source_dropout")
        self.target_dropout = keras.layers.Dropout(config.dropout, dtype=self.dtype_policy, name="target_dropout")
        self.encoder = Encoder(config.num_layers, **self._block_arguments(), name="encoder")
        self.decoder = Decoder(config.decoder_layers, **self._block_arguments(), name="decoder")
        self.output_bias = None
        self.build()

    @classmethod
    def from_preset(cls, preset: str, **changes) -> "Transformer":
        """A model with fresh weights. `changes` are fields of `ModelConfig`, `vocab_size` first of all."""
        return cls(dataclasses.replace(get_preset(preset).model, **changes))

    def build(self, input_shape=None):
        if self.built:
            return
        hidden = (None, None, self.config.model_dim)
        for embedding in (self.source_embedding, self.target_embedding, self.output_embedding):
            if not embedding.built:
                embedding.build((None, None))
        for layer in (self.source_positions, self.target_positions, self.encoder):
            layer.build(hidden)
        self.decoder.build(hidden, hidden)
        if self.config.output_bias:
            size = self.config.decoder_vocab_size
            self.output_bias = self.add_weight(shape=(size,), initializer="zeros", name="output_bias")
        self.built = True

    def call(self, inputs, training=None, return_attention=False):
        source, target = self._checked(inputs)
        segments = inputs.get("source_segments"), inputs.get("target_segments")
        memory = self.encode(
            source,
            segments=segments[0],
            positions=inputs.get("source_positions"),
            training=training,
            return_attention=return_attention,
        )
        memory, encoder_weights = memory if return_attention else (memory, None)
        logits = self.decode(
            target,
            memory,
            padding_mask(source, self.config.pad_id),
            source_segments=segments[0],
            segments=segments[1],
            positions=inputs.get("target_positions"),
            training=training,
            return_attention=return_attention,
        )
        if not return_attention:
            return logits
        logits, decoder_weights = logits
        return logits, {"encoder": encoder_weights} | decoder_weights

    def encode(self, source, segments=None, positions=None, training=None, return_attention=False):
        """Ids (B, S) to the encoder's output (B, S, D); with `return_attention` also the layers' weights."""
        x = self.source_positions(self.source_embedding(source), positions=positions)
        x = self.source_dropout(x, training=training)
        within = None if segments is None else segment_mask(segments, segments)
        mask = padding_mask(source, self.config.pad_id)
        return self.encoder(x, mask=mask, attention_mask=within, return_attention=return_attention, training=training)

    def decode(
        self,
        target,
        memory,
        source_mask,
        source_segments=None,
        segments=None,
        positions=None,
        training=None,
        return_attention=False,
    ):
        """Logits (B, T, V) of what follows each of the ids `target` (B, T).

        Args:
            target: the decoder's input.
            memory: the encoder's output (B, S, D).
            source_mask: boolean (B, S), False where the source is padding.
            source_segments, segments, positions: of packed rows.
            return_attention: whether {"decoder": […], "cross": […]} is returned too.
        """
        hidden = self.decode_hidden(
            target, memory, source_mask, source_segments, segments, positions, training, return_attention
        )
        if not return_attention:
            return self.logits(hidden)
        hidden, layers = hidden
        weights = {"decoder": [layer["self"] for layer in layers], "cross": [layer["cross"] for layer in layers]}
        return self.logits(hidden), weights

    def decode_hidden(
        self,
        target,
        memory,
        source_mask,
        source_segments=None,
        segments=None,
        positions=None,
        training=None,
        return_attention=False,
    ):
        """The decoder's last hidden states (B, T, D), before `logits`; arguments as in `decode`."""
        within = across = None
        if segments is not None:
            within, across = segment_mask(segments, segments), segment_mask(segments, source_segments)
        return self.decoder(
            self._embed_target(target, positions, training),
            memory,
            memory_mask=source_mask,
            self_attention_mask=within,
            cross_attention_mask=across,
            return_attention=return_attention,
            training=training,
        )

    def start_cache(self, memory, max_length):
        """The decoder's memory of a sequence of at most `max_length` ids that `decode_step` makes."""
        return self.decoder.start_cache(ops.shape(memory)[0], max_length, memory)

    def decode_step(self, target, cache, index, source_mask):
        """Logits (B, N, V) of the ids `target` (B, N) at positions `index` …, and the cache with them in it."""
        positions = index + ops.arange(ops.shape(target)[1])
        x = self._embed_target(target, positions, training=False)
        hidden, cache = self.decoder.step(x, cache, index, source_mask)
        return self.logits(hidden), cache

    def logits(self, hidden):
        """Hidden states (B, T, D) to logits (B, T, V), float32 (section 3.4)."""
        logits = self.output_embedding.logits(hidden)
        return logits if self.output_bias is None else logits + ops.cast(self.output_bias, "float32")

    def _embed_target(self, target, positions, training):
        x = self.target_positions(self.target_embedding(target), positions=positions)
        return self.target_dropout(x, training=training)

    def _new_embedding(self, name, size):
        config = self.config
        # No mask: the model makes its own, and the decoder's first id may be the padding's in imported models.
        return SharedEmbedding(
            size, config.model_dim, config.scale_embeddings, pad_id=None, dtype=self.dtype_policy, name=name
        )

    def _new_positions(self, name):
        return PositionalEncoding(self.config.positions, self.config.max_positions, dtype=self.dtype_policy, name=name)

    def _block_arguments(self) -> dict:
        config = self.config
        others = {
            "use_bias": config.attention_bias,
            "block_size": config.attention_block_size,
            "transposed_kernels": self.transposed_kernels,
        }
        return {name: getattr(config, name) for name in BLOCK_ARGUMENTS if name not in others} | {
            **others,
            "dtype": self.dtype_policy,
        }

    def _checked(self, inputs):
        if not isinstance(inputs, dict) or "source" not in inputs or "target" not in inputs:
            got = sorted(inputs) if isinstance(inputs, dict) else type(inputs).__name__
            raise ValueError(f'{self.name} is called with {{"source": (B, S), "target": (B, T)}}; got {got}.')
        for name in ("source", "target"):
            if len(inputs[name].shape) != 2:
                shape = tuple(inputs[name].shape)
                raise ValueError(f"{self.name} expects `{name}` ids of shape (batch, length); got {shape}.")
        return inputs["source"], inputs["target"]

    def get_config(self):
        config = {"config": self.config.to_dict(), "transposed_kernels": self.transposed_kernels}
        return super().get_config() | config

    @classmethod
    def from_config(cls, config):
        return cls(**config | {"config": ModelConfig.from_dict(config["config"])})
