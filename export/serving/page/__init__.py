"""The translation page: static files that use TensorFlow Serving's REST interface only."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
