"""Inspection of a SavedModel: contents, problems, and the TensorFlow Serving releases that load it."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
