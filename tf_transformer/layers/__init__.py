"""Keras layers of the paper: attention, feed-forward, embedding, positions, encoder and decoder.

They use `keras.ops` only and run on any Keras backend.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
