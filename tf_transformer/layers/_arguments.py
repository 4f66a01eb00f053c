"""Checks of the arguments of layers."""

import numbers
import operator
from typing import Any


def check_sizes(owner: str, **sizes: Any) -> None:
    """Raise ValueError unless each size is an integer of at least 1; `owner` is the name of the layer's class."""
    for name, size in sizes.items():
        try:
            valid = operator.index(size) >= 1
        except TypeError:
            valid = False
        if not valid:
            raise ValueError(f"{owner}'s {name} must be an integer of at least 1. Received: {name}={size!r}.")


def check_rates(owner: str, **rates: Any) -> None:
    """Raise ValueError unless each rate of dropout is at least 0 and below 1."""
    for name, rate in rates.items():
        if not isinstance(rate, numbers.Real) or not 0.0 <= float(rate) < 1.0:
            raise ValueError(f"{owner}'s {name} must be at least 0 and below 1. Received: {name}={rate!r}.")


def check_rank(owner: str, name: str, shape: tuple, expected: str) -> None:
    """Raise ValueError unless a shape has as many axes as `expected` names, such as "(B, T, D)"."""
    if len(shape) != expected.count(",") + 1:
        raise ValueError(f"{owner} expects {name} of shape {expected}. Received: shape {tuple(shape)}.")
