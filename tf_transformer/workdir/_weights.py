"""The weights of a Keras model as arrays by name, and back."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tf_transformer.workdir.checkpoints import CheckpointError

if TYPE_CHECKING:
    import keras

_LARGE = 64 * 2**20


def named_variables(model: "keras.Model") -> dict[str, Any]:
    """The model's weights by path, relative to the model: the same names for every model of one configuration."""
    prefix = f"{model.name}/"
    variables: dict[str, Any] = {}
    for variable in model.weights:
        name = variable.path.removeprefix(prefix)
        if name in variables:
            raise ValueError(
                f"Expected one weight per name. Received: two called {name!r} in {type(model).__name__}. Rename its "
                "layers."
            )
        variables[name] = variable
    return variables


def model_tensors(model: "keras.Model") -> dict[str, np.ndarray]:
    """The model's weights by name, as arrays; kernels are (in, out) and tables (V, D) in any layout."""
    return dict(_in_layout(model, {name: np.asarray(variable) for name, variable in named_variables(model).items()}))


def assign_model(model: "keras.Model", tensors: Mapping[str, np.ndarray], source: str) -> None:
    """Assign weights in the form of `model_tensors` to a model; otherwise as `assign_tensors`."""
    assign_tensors(named_variables(model), _in_layout(model, tensors), source)


def assign_tensors(variables: dict, tensors: Mapping[str, np.ndarray], source: str) -> None:
    """Assign arrays to variables of the same names and shapes; CheckpointError names what does not fit.

    Args:
        variables: by name.
        tensors: by name.
        source: where the arrays come from, for the message.
    """
    missing, unknown = sorted(variables.keys() - tensors.keys()), sorted(tensors.keys() - variables.keys())
    if missing or unknown:
        raise CheckpointError(
            f"{source}: expected the weights of this model. Received: no {_some(missing)}, and {_some(unknown)} "
            "besides. Use the configuration it was trained with."
        )
    for name, variable in variables.items():
        if tuple(variable.shape) != tensors[name].shape:
            raise CheckpointError(
                f"{source}: expected {name} of shape {tuple(variable.shape)}. Received: shape "
                f"{tensors[name].shape}. Use the configuration it was trained with."
            )
    for name, variable in variables.items():
        _assign(variable, tensors[name])


def _assign(variable: Any, value: np.ndarray) -> None:
    """Assign an array. The memory of the old value of a large variable is freed before.

    Not in parts: `ResourceStridedSliceAssign` makes every later read copy the whole variable.
    """
    inner = getattr(variable, "value", None)
    if value.nbytes <= _LARGE or type(inner).__name__ != "ResourceVariable" or value.dtype.name != variable.dtype:
        variable.assign(value)
        return
    import tensorflow as tf

    for array in (value[:0], value):
        tf.raw_ops.AssignVariableOp(resource=cast(Any, inner).handle, value=array, validate_shape=False)


class _InLayout(Mapping[str, np.ndarray]):
    """Weights of which some are transposed when they are looked up."""

    def __init__(self, tensors: Mapping[str, np.ndarray], is_transposed: Callable[[str], bool]) -> None:
        self._tensors, self._is_transposed = tensors, is_transposed

    def __getitem__(self, name: str) -> np.ndarray:
        return self._tensors[name].T if self._is_transposed(name) else self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def _in_layout(model: "keras.Model", tensors: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """The weights in the model's layout from (in, out) and (V, D), or back."""
    is_transposed = getattr(model, "is_transposed", None)
    return tensors if is_transposed is None else _InLayout(tensors, is_transposed)


def _some(names: list[str]) -> str:
    if not names:
        return "nothing"
    return ", ".join(name[:100] for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
