"""Simpler simple recurrent unit (Kim et al. 2019, https://aclanthology.org/D19-5632), Marian's fast self-attention."""

from typing import Any

import keras
from keras import ops

from tf_transformer.layers._arguments import check_rank
from tf_transformer.layers._projection import Projection, new_initializer


@keras.saving.register_keras_serializable(package="tf_transformer")
class SSRU(keras.layers.Layer):
    """Simpler simple recurrent unit: a causal layer whose state has the width of one position.

        f_t = sigmoid(W_f x_t + b_f),  c_t = f_t * c_(t-1) + (1 - f_t) * W x_t,  h_t = relu(c_t),  c_0 = 0

    It can replace the self-attention of a decoder. A whole sequence takes about log2(T) parallel steps; one further
    position takes constant time and memory (`step`). The state is float32 whatever the policy. Masks pass through:
    padding behind a sequence changes nothing before it.

    Args:
        kernel_initializer, bias_initializer: of the projections.

    Call arguments:
        inputs: (B, T, D).
        continues: boolean (B, T) or None; False where a position is the first of its sequence, for packed rows.

    Returns:
        (B, T, D).

    Example:
        >>> SSRU()(keras.ops.ones((2, 5, 512))).shape
        TensorShape([2, 5, 512])
    """

    def __init__(self, kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", **kwargs: Any):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_masking = True

    def build(self, input_shape: tuple) -> None:
        check_rank(self.name, "inputs", input_shape, "(B, T, D)")
        self.input_projection = self._new_projection("input", input_shape, use_bias=False)
        self.forget = self._new_projection("forget", input_shape, use_bias=True)

    def _new_projection(self, name: str, input_shape: tuple, use_bias: bool) -> Projection:
        layer = Projection(
            input_shape[-1],
            use_bias,
            new_initializer(self.kernel_initializer),
            new_initializer(self.bias_initializer),
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build(input_shape)
        return layer

    def call(self, inputs: Any, continues: Any = None) -> Any:
        kept, added = _gates(self.forget(inputs), self.input_projection(inputs))
        if continues is not None:
            kept = ops.where(continues[..., None], kept, 0.0)
        return ops.cast(ops.relu(_scan(kept, added)), self.compute_dtype)

    def step(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Compute one further position.

        Args:
            inputs: (…, D) float32.
            state: c of the previous position, (…, D) float32; zeros before the first.

        Returns:
            The output (…, D), and the new state (…, D).
        """
        kept, added = _gates(self.forget.apply(inputs), self.input_projection.apply(inputs))
        state = kept * state + added
        return ops.relu(state), state

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }


def continues_previous(attention_mask: Any) -> Any:
    """Whether each position may see the one before it: boolean (B, T, T) or (T, T) -> (B, T) or (1, T).

    Args:
        attention_mask: that of the self-attention which the SSRU replaces; it separates the sequences of packed rows.
    """
    mask = attention_mask if len(attention_mask.shape) == 3 else attention_mask[None]
    positions = ops.arange(ops.shape(mask)[-1])
    previous = positions[:, None] - 1 == positions
    return ops.any(ops.logical_and(mask, previous), axis=-1)


def _gates(forget: Any, projected: Any) -> tuple[Any, Any]:
    """The factor of the previous state, and what is added to it, both float32."""
    kept = ops.sigmoid(ops.cast(forget, "float32"))
    return kept, (1.0 - kept) * ops.cast(projected, "float32")


def _scan(kept: Any, added: Any) -> Any:
    """c_t = kept_t * c_(t-1) + added_t for all positions of (B, T, D): each round joins twice as many positions."""
    length = kept.shape[1]
    if isinstance(length, int):  # neither None nor JAX's symbol of an unknown length
        shift = 1
        while shift < length:
            kept, added = _joined(kept, added, shift)
            shift *= 2
        return added
    length = ops.shape(kept)[1]
    _, _, added = ops.while_loop(
        lambda shift, kept, added: shift < length,
        lambda shift, kept, added: (2 * shift, *_joined(kept, added, shift)),
        (ops.convert_to_tensor(1, "int32"), kept, added),
    )
    return added


def _joined(kept: Any, added: Any, shift: Any) -> tuple[Any, Any]:
    """Each position joined with the one `shift` before it."""
    return kept * _shifted(kept, shift, 1.0), added + kept * _shifted(added, shift, 0.0)


def _shifted(x: Any, shift: Any, fill: float) -> Any:
    positions = ops.arange(ops.shape(x)[1]) - shift
    moved = ops.take(x, ops.maximum(positions, 0), axis=1)
    return ops.where((positions >= 0)[None, :, None], moved, fill)
