"""Ablations: rows of the paper's Table 3 trained on your data, next to the paper's numbers."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
