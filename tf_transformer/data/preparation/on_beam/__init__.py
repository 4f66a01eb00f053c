"""Preparation of a corpus on Apache Beam: the same functions as on one machine, and the same contents."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
