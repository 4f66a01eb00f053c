"""Positional encodings (section 3.5): sinusoidal, tensor2tensor's and Marian's variants, and learned."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.layers._arguments import check_rank

POSITIONAL_ENCODINGS = ("sinusoidal", "t2t", "marian", "learned")

# Positions are split into blocks of this many, so that float32 angles stay small and accurate at any length.
_BLOCK = 256


def sinusoidal_encoding(positions: Any, dim: int, kind: str = "sinusoidal") -> Any:
    """Compute sines and cosines of `positions` (…) at dim / 2 wavelengths: (…, dim), float32.

    "sinusoidal" is the paper: PE(pos, 2i) = sin(pos / 10000^(2i/d)) and PE(pos, 2i+1) its cosine, interleaved.
    "marian" has the same angles, all sines before all cosines. "t2t" (tensor2tensor) also divides by (d/2 - 1)
    instead of d/2, so that the longest wavelength is exactly 10000 times 2 pi.
    """
    rates = _rates(dim, kind)
    # sin(pos * rate) = sin(block * (256 * rate mod 2 pi) + rest * rate), with small angles on the right.
    per_block = (_BLOCK * rates) % (2 * math.pi)
    # In float32, which is exact up to 2^24: GPUs have no kernels for the division of int32.
    positions = ops.cast(positions, "float32")[..., None]
    block = ops.floor(positions / _BLOCK)
    rest = positions - block * _BLOCK
    angles = block * per_block.astype("float32") + rest * rates.astype("float32")  # (…, dim / 2)
    sines, cosines = ops.sin(angles), ops.cos(angles)
    if kind == "sinusoidal":
        pairs = ops.stack([sines, cosines], axis=-1)
        return ops.reshape(pairs, (*ops.shape(sines)[:-1], dim))
    return ops.concatenate([sines, cosines], axis=-1)


def _rates(dim: int, kind: str) -> np.ndarray:
    steps = np.arange(dim // 2, dtype="float64")
    divisor = max(dim // 2 - 1, 1) if kind == "t2t" else dim / 2
    return 10000.0 ** (-steps / divisor)


@keras.saving.register_keras_serializable(package="tf_transformer")
class PositionalEncoding(keras.layers.Layer):
    """Sum of inputs and positional encoding, computed in float32. Masks pass through.

    Args:
        kind: "sinusoidal" (the paper), "t2t", "marian" or "learned" (Table 3, row E).
        max_positions: number of learned positions; the other kinds have no limit.
        offset: added to the positions; 0 if they are learned.

    Call arguments:
        inputs: (B, T, D), D even unless learned.
        positions: integers (B, T), (1, T) or (T,); None: 0, 1, 2, …

    Returns:
        (B, T, D).

    Example:
        >>> PositionalEncoding()(keras.ops.zeros((1, 2, 4)))[0, 1]  # sin 1, cos 1, sin 0.01, cos 0.01
    """

    def __init__(self, kind: str = "sinusoidal", max_positions: int = 1024, offset: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        if kind not in POSITIONAL_ENCODINGS:
            raise ValueError(
                f"PositionalEncoding's kind must be one of {', '.join(POSITIONAL_ENCODINGS)}. Received: kind={kind!r}."
            )
        if offset < 0 or (offset and kind == "learned"):
            raise ValueError(
                "PositionalEncoding's offset must be 0 for learned positions and not negative for others. Received: "
                f"offset={offset}, kind={kind!r}."
            )
        self.kind = kind
        self.max_positions = max_positions
        self.offset = offset
        self.supports_masking = True

    def build(self, inputs_shape: tuple, positions_shape: tuple | None = None) -> None:
        check_rank(self.name, "inputs", inputs_shape, "(B, T, D)")
        dim = inputs_shape[-1]
        if self.kind == "learned":
            initializer = keras.initializers.RandomNormal(stddev=dim**-0.5)
            self.table = self.add_weight(shape=(self.max_positions, dim), initializer=initializer, name="table")
        elif dim % 2:
            raise ValueError(f"{self.name} needs inputs of even width for sines and cosines. Received: width {dim}.")

    def call(self, inputs: Any, positions: Any = None) -> Any:
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if "float" not in dtype:
            raise ValueError(f"{self.name} expects floats (B, T, D). Received: dtype {dtype}. Embed the ids first.")
        if positions is None:
            self._check_length(inputs.shape[1])
            positions = ops.arange(ops.shape(inputs)[1])
        if self.kind == "learned":
            encoding = ops.cast(ops.take(self.table, positions, axis=0), "float32")
        else:
            places = ops.cast(positions, "float32") + self.offset
            encoding = sinusoidal_encoding(places, inputs.shape[-1], self.kind)
        return ops.cast(ops.cast(inputs, "float32") + encoding, inputs.dtype)

    def _check_length(self, length: int | None) -> None:
        if self.kind == "learned" and length is not None and length > self.max_positions:
            raise ValueError(
                f"{self.name} has {self.max_positions} learned positions. Received: a sequence of {length}. "
                "Increase max_positions or truncate the sequence."
            )

    def compute_output_shape(self, inputs_shape: tuple, positions_shape: tuple | None = None) -> tuple:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        names = ("kind", "max_positions", "offset")
        return super().get_config() | {name: getattr(self, name) for name in names}
