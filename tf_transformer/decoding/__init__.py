"""Search over a decoder (beam, greedy, sampling) as TensorFlow graphs, and the translator built on it."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
