"""Weights as a SavedModel stores them: float32, half the bytes, or a quarter, and the effect of rounding.

A smaller matrix is rounded when it is saved and widened once, when it is loaded. The graph computes with the same
float32 variable as before, so a request costs what it costs with full weights; only the files are smaller. Biases and
the gains of normalizations, a thousandth of the bytes, stay as they are. Eight-bit weights are computed with as they
are: see `_matrices`.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from tf_transformer.export._trial_rows import batches_of
from tf_transformer.export._verify import ExportRejected, answer

DTYPES = {"float32": tf.float32, "float16": tf.float16, "bfloat16": tf.bfloat16}
WEIGHTS = (*DTYPES, "int8")


class RoundedVariable(tf.saved_model.experimental.TrackableResource):
    """A float32 variable whose saved value has fewer bits.

    Stands in for the variable in what is saved: functions that captured the variable find it by its handle. The
    value it reads and writes in checkpoints is cast on the way.

    Args:
        variable: the tf.Variable that the functions read.
        dtype: of the saved value.
        name: the variable's name in the server, unlike that of any other.
    """

    def __init__(self, variable: tf.Variable, dtype: tf.DType, name: str) -> None:
        super().__init__()
        self._resource_handle = variable.handle  # Private API: see tests/unit/test_private_apis.py.
        self._stored, self._shared_name = dtype, name
        self._dtype, self._shape = variable.dtype, variable.shape

    def _create_resource(self) -> tf.Tensor:
        handle = tf.raw_ops.VarHandleOp(dtype=self._dtype, shape=self._shape, shared_name=self._shared_name)
        if tf.inside_function():
            # TensorFlow's loader in Python asks for the value before it restores it.
            tf.raw_ops.AssignVariableOp(resource=handle, value=tf.zeros(self._shape, self._dtype))
        return handle

    def _destroy_resource(self) -> None:
        tf.raw_ops.DestroyResourceOp(resource=self.resource_handle, ignore_lookup_error=True)

    def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
        value = tf.raw_ops.ReadVariableOp(resource=self.resource_handle, dtype=self._dtype)
        return {"value": tf.cast(value, self._stored)}

    def _restore_from_tensors(self, restored_tensors: dict[str, tf.Tensor]) -> tf.Operation:
        value = tf.ensure_shape(tf.cast(restored_tensors["value"], self._dtype), self._shape)
        return tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=value)


def rounded(tensors: dict[str, np.ndarray], weights: str, source: str) -> dict[str, np.ndarray]:
    """Arrays by name as they come back from `weights` ("float32", "float16", "bfloat16"), still float32.

    For "int8" they come back unchanged: `quantize_model` rounds them. A value that is not finite, before or after, is a
    ValueError that names the array.

    Args:
        source: where the arrays come from, for the message.
    """
    if weights not in WEIGHTS:
        raise ValueError(f"Expected weights to be one of {', '.join(WEIGHTS)}. Received: {weights!r}.")
    dtype = DTYPES.get(weights, tf.float32).as_numpy_dtype
    result = {}
    for name, value in tensors.items():
        _require_finite(value, f"{source}: {name} holds", "Export another checkpoint.")
        if value.ndim < 2:
            result[name] = value
            continue
        with np.errstate(over="ignore"):
            result[name] = value.astype(dtype).astype(np.float32)
        advice = "Export with weights float32 or bfloat16, which reach as far as the checkpoint does."
        _require_finite(result[name], f"{source}: as {weights}, {name} holds", advice)
    return result


def stored(variables: dict[str, tf.Variable], weights: str) -> dict:
    """The objects under which a SavedModel saves `variables`, by name, as `weights`."""
    small = DTYPES.get(weights, tf.float32)
    return {
        name: RoundedVariable(variable, small, name)
        if small != variable.dtype and variable.shape.rank > 1
        else variable
        for name, variable in variables.items()
    }


def _require_finite(value: np.ndarray, what: str, advice: str) -> None:
    strange = int(value.size - np.isfinite(value).sum())
    if strange:
        raise ValueError(f"{what} {strange} values that are NaN or infinite; a model must have none. {advice}")


COMPARED = ("serving_default", "score")
"""Signatures that `compare_rounded` calls."""

LIMIT = 0.05
"""Allowed mean change of the log-probability per token."""


@dataclasses.dataclass(frozen=True)
class Rounding:
    """The effect: of `sentences` translations `changed` are others, and scores differ by `per_token` on average."""

    sentences: int
    changed: int
    per_token: float


def compare_rounded(
    functions: Mapping[str, Callable], sentences: list[bytes], round_weights: Callable[[], Mapping[str, Callable]]
) -> Rounding:
    """Translate with full weights, round them, and compare; they stay rounded.

    More than `LIMIT` is ExportRejected.

    Args:
        functions: the signatures of the model in memory.
        round_weights: changes the model's weights and returns the signatures that have the rounded ones.
    """
    batches = batches_of(sentences)
    full = answer(functions, [("serving_default", {"text": batch}) for batch in batches])
    pairs = [
        ("score", {"source": batch, "target": found["translation"].tolist()}) for batch, found in zip(batches, full)
    ]
    full_scores = answer(functions, pairs)
    functions = round_weights()
    small = answer(functions, [("serving_default", {"text": batch}) for batch in batches])
    small_scores = answer(functions, pairs)
    changed = sum(int((one["translation"] != other["translation"]).sum()) for one, other in zip(full, small))
    tokens = sum(int(each["tokens"].sum()) for each in full_scores)
    apart = sum(float(np.abs(one["score"] - other["score"]).sum()) for one, other in zip(full_scores, small_scores))
    rounding = Rounding(len(sentences), changed, apart / max(tokens, 1))
    if not rounding.per_token <= LIMIT:
        raise ExportRejected(
            f"Expected rounded weights to change log-probabilities per token by at most {LIMIT}. Received: "
            f"{rounding.per_token:.3f} on average. Export with float32 weights."
        )
    return rounding
