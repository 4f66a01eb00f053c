"""Transformer model: encoder, decoder and embeddings (figure 1 of the paper)."""

import dataclasses
import os
from typing import Any

import keras
from keras import ops

from tf_transformer.config import ModelConfig
from tf_transformer.layers import (
    BLOCK_ARGUMENTS,
    Decoder,
    Dropout,
    Encoder,
    PositionalEncoding,
    SharedEmbedding,
    padding_mask,
    segment_mask,
)
from tf_transformer.presets import get_preset


@keras.saving.register_keras_serializable(package="tf_transformer")
class Transformer(keras.Model):
    """The paper's encoder-decoder model. Its weights are created by the constructor.

    Padding of the source is masked by its ids (`config.pad_id`); padding of the target is hidden by the causal mask.

    Args:
        config: a `ModelConfig`.

    Call arguments:
        inputs: {"source": (B, S), "target": (B, T)}, integers; `target` is the decoder's input, which begins with
            `config.bos_id`. For packed rows also "source_segments", "target_segments" (0 = padding) and
            "source_positions", "target_positions", shaped like the ids.
        return_attention_scores: whether to return {"encoder": […], "decoder": […], "cross": […]}, too: lists with the
            attention weights (B, H, queries, keys) of each layer; "decoder" is empty if the decoder has SSRUs.
        training: whether dropout is active.

    Returns:
        Logits (B, T, V), float32; or a tuple of them and the attention weights.

    Example:
        >>> model = Transformer.from_preset("tiny", vocab_size=100)
        >>> model({"source": keras.ops.array([[5, 6, 3]]), "target": keras.ops.array([[2, 7]])}).shape
        TensorShape([1, 2, 100])
    """

    def __init__(self, config: ModelConfig, name: str = "transformer", **kwargs: Any):
        super().__init__(name=name, **kwargs)
        if not isinstance(config, ModelConfig):
            raise ValueError(
                f"{type(self).__name__} expects a ModelConfig. Received: {config!r}. For a preset use "
                'Transformer.from_preset("base"); of a Config pass its `model`.'
            )
        self.config = config
        self.source_embedding = self._new_embedding("source_embedding", config.vocab_size)
        self.target_embedding = self.source_embedding
        if config.tied_embeddings != "all":
            self.target_embedding = self._new_embedding("target_embedding", config.decoder_vocab_size)
        self.output_embedding = self.target_embedding
        if config.tied_embeddings == "none":
            self.output_embedding = self._new_embedding("output_embedding", config.decoder_vocab_size)
        self.output_embedding.prefer_logits()
        self.source_positions = self._new_positions("source_positions")
        self.target_positions = self._new_positions("target_positions")
        self.source_norm = self._new_norm("source_norm")
        self.target_norm = self._new_norm("target_norm")
        self.source_dropout = Dropout(config.dropout, dtype=self.dtype_policy, name="source_dropout")
        self.target_dropout = Dropout(config.dropout, dtype=self.dtype_policy, name="target_dropout")
        block_arguments = {name: getattr(config, name) for name in BLOCK_ARGUMENTS} | {"dtype": self.dtype_policy}
        self.encoder = Encoder(config.num_layers, **block_arguments, name="encoder")
        self.decoder = Decoder(
            config.decoder_layers, autoregression=config.decoder_autoregression, **block_arguments, name="decoder"
        )
        self.output_bias = None
        self.build()

    @classmethod
    def from_preset(cls, preset: str, **changes: Any) -> "Transformer":
        """A model with random weights. `changes` are fields of `ModelConfig` to replace, such as `vocab_size`."""
        fields = [field.name for field in dataclasses.fields(ModelConfig)]
        if unknown := [name for name in changes if name not in fields]:
            raise ValueError(f"Expected fields of ModelConfig: {', '.join(fields)}. Received: {', '.join(unknown)}.")
        return cls(dataclasses.replace(get_preset(preset).model, **changes))

    def build(self, input_shape: Any = None) -> None:
        if getattr(self, "built", False):
            return
        hidden = (None, None, self.config.model_dim)
        for embedding in (self.source_embedding, self.target_embedding, self.output_embedding):
            if not embedding.built:
                embedding.build((None, None))
        norms = (self.source_norm, self.target_norm) if self.config.embedding_norm else ()
        for layer in (self.source_positions, self.target_positions, *norms, self.encoder):
            layer.build(hidden)
        self.decoder.build(hidden, hidden)
        if self.config.output_bias:
            size = self.config.decoder_vocab_size
            self.output_bias = self.add_weight(shape=(size,), initializer="zeros", name="output_bias")
        self.built = True

    def call(self, inputs: dict[str, Any], training: bool | None = None, return_attention_scores: bool = False) -> Any:
        source, target = self._checked(inputs)
        segments = inputs.get("source_segments"), inputs.get("target_segments")
        memory = self.encode(
            source,
            segments=segments[0],
            positions=inputs.get("source_positions"),
            training=training,
            return_attention_scores=return_attention_scores,
        )
        memory, encoder_weights = memory if return_attention_scores else (memory, None)
        logits = self.decode(
            target,
            memory,
            padding_mask(source, self.config.pad_id),
            source_segments=segments[0],
            segments=segments[1],
            positions=inputs.get("target_positions"),
            training=training,
            return_attention_scores=return_attention_scores,
        )
        if not return_attention_scores:
            return logits
        logits, decoder_weights = logits
        return logits, {"encoder": encoder_weights} | decoder_weights

    def encode(
        self,
        source: Any,
        segments: Any = None,
        positions: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        """Encode ids (B, S) to (B, S, D); with `return_attention_scores` also return the layers' weights."""
        x = self.source_positions(self.source_embedding(source), positions=positions)
        x = x if self.source_norm is None else self.source_norm(x)
        x = self.source_dropout(x, training=training)
        return self.encoder(
            x,
            mask=padding_mask(source, self.config.pad_id),
            attention_mask=None if segments is None else segment_mask(segments, segments),
            return_attention_scores=return_attention_scores,
            training=training,
        )

    def decode(
        self,
        target: Any,
        memory: Any,
        source_mask: Any,
        source_segments: Any = None,
        segments: Any = None,
        positions: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        """Compute the logits (B, T, V) of the token after each of the ids `target` (B, T).

        Args:
            target: the decoder's input.
            memory: the encoder's output (B, S, D).
            source_mask: boolean (B, S), False where the source is padding.
            source_segments, segments, positions: of packed rows.
            training: whether dropout is active.
            return_attention_scores: whether to return {"decoder": […], "cross": […]}, too.
        """
        hidden = self.decode_hidden(
            target, memory, source_mask, source_segments, segments, positions, training, return_attention_scores
        )
        if not return_attention_scores:
            return self.logits(hidden)
        hidden, layers = hidden
        weights = {"decoder": [layer["self"] for layer in layers if "self" in layer]}
        weights["cross"] = [layer["cross"] for layer in layers]
        return self.logits(hidden), weights

    def decode_hidden(
        self,
        target: Any,
        memory: Any,
        source_mask: Any,
        source_segments: Any = None,
        segments: Any = None,
        positions: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        """Compute the decoder's last hidden states (B, T, D), the input of `logits`; arguments as in `decode`."""
        within = across = None
        if segments is not None:
            within, across = segment_mask(segments, segments), segment_mask(segments, source_segments)
        return self.decoder(
            self.embed_target(target, positions, training),
            memory,
            memory_mask=source_mask,
            self_attention_mask=within,
            cross_attention_mask=across,
            return_attention_scores=return_attention_scores,
            training=training,
        )

    def embed_target(self, target: Any, positions: Any = None, training: bool | None = None) -> Any:
        """The decoder's input: embeddings (B, T, D) of the ids `target` (B, T) with their positions."""
        x = self.target_positions(self.target_embedding(target), positions=positions)
        x = x if self.target_norm is None else self.target_norm(x)
        return self.target_dropout(x, training=training)

    def logits(self, hidden: Any) -> Any:
        """Project hidden states (B, T, D) to logits (B, T, V), float32 (section 3.4)."""
        logits = self.output_embedding.logits(hidden)
        return logits if self.output_bias is None else logits + ops.cast(self.output_bias, "float32")

    def export(self, filepath: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
        """Export the forward pass, from ids to logits, as `keras.Model.export` does.

        For a SavedModel that translates text, use `tf_transformer.export.export_model`.

        Args:
            filepath: directory to write.
            input_signature: {"source": (B, S), "target": (B, T)} as int32 unless given.
        """
        if len(args) < 3:
            ids = keras.InputSpec(shape=(None, None), dtype="int32")
            kwargs.setdefault("input_signature", [{"source": ids, "target": ids}])
        super().export(filepath, *args, **kwargs)

    def is_transposed(self, name: str) -> bool:
        """Whether the weight with this name, relative to the model, is stored transposed; see `inference_layout`."""
        if name.endswith("/kernel"):
            return self.encoder.layers[0].feed_forward.inner.transposed
        return self.output_embedding.transposed and name == f"{self.output_embedding.name}/table"

    def _new_embedding(self, name: str, size: int) -> SharedEmbedding:
        config = self.config
        # No Keras mask: the model creates its own, and imported models may begin the target with the padding id.
        return SharedEmbedding(
            size, config.model_dim, config.scale_embeddings, pad_id=None, dtype=self.dtype_policy, name=name
        )

    def _new_positions(self, name: str) -> PositionalEncoding:
        config = self.config
        return PositionalEncoding(
            config.positions, config.max_positions, config.position_offset, dtype=self.dtype_policy, name=name
        )

    def _new_norm(self, name: str) -> keras.layers.Layer | None:
        """The normalization of the sums of embedding and position, if the model has one."""
        if not self.config.embedding_norm:
            return None
        return keras.layers.LayerNormalization(epsilon=self.config.norm_epsilon, dtype=self.dtype_policy, name=name)

    def _checked(self, inputs: Any) -> tuple[Any, Any]:
        if not isinstance(inputs, dict) or "source" not in inputs or "target" not in inputs:
            received = sorted(inputs) if isinstance(inputs, dict) else type(inputs).__name__
            raise ValueError(
                f'{self.name} expects inputs {{"source": (B, S), "target": (B, T)}}. Received: {received}.'
            )
        for name in ("source", "target"):
            if len(inputs[name].shape) != 2:
                shape = tuple(inputs[name].shape)
                raise ValueError(f"{self.name} expects `{name}` ids of shape (B, length). Received: shape {shape}.")
        segments = [name for name in ("source_segments", "target_segments") if inputs.get(name) is not None]
        if len(segments) == 1:
            raise ValueError(
                f"{self.name} expects both or neither of `source_segments` and `target_segments`: they tell which "
                f"sentences of packed rows belong together. Received: only `{segments[0]}`."
            )
        return inputs["source"], inputs["target"]

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict | None = None) -> "Transformer":
        return cls(**config | {"config": ModelConfig.from_dict(config["config"])})
