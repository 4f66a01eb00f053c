"""Import of models trained elsewhere: read, checked, and written as a work directory."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
