"""Distillation: a teacher translates the training sources, and a smaller student is trained on its translations."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
