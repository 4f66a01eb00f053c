"""Keras layers of the paper: attention, feed-forward, embedding, positions, encoder and decoder.

They use `keras.ops` only and run on any Keras backend.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)

# Registers the layers with Keras (see `tf_transformer._registration`) now, not while one of their modules is imported.
import keras as _keras  # noqa: E402, F401
