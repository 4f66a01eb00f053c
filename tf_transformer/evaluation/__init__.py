"""Evaluation: corpus scores with their signatures, perplexity, and a record that repeats them."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
