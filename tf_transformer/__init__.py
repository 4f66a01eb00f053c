"""The Transformer of "Attention Is All You Need" for TensorFlow and Keras 3.

The names below are loaded when they are first used, so that importing the package (for the command line's
help, or for the HTTP client, which needs no TensorFlow) costs nothing.
"""

import importlib

from tf_transformer.version import __version__

_HOMES = {
    "Config": "tf_transformer.config",
    "DecodingConfig": "tf_transformer.config",
    "ModelConfig": "tf_transformer.config",
    "TrainingConfig": "tf_transformer.config",
    "get_preset": "tf_transformer.presets",
    "Transformer": "tf_transformer.model",
    "Translator": "tf_transformer.decoding.translator",
    "NoamSchedule": "tf_transformer.training.schedules",
    "LabelSmoothedCrossEntropy": "tf_transformer.training.losses",
    "Workdir": "tf_transformer.workdir",
}

__all__ = ["__version__", "layers", *sorted(_HOMES)]


def __getattr__(name):
    if name == "layers":
        return importlib.import_module("tf_transformer.layers")
    if name not in _HOMES:
        raise AttributeError(f"module 'tf_transformer' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__():
    return sorted([*globals(), *__all__])
