"""Analysis of trained models: attention maps, and ablations in the manner of the paper's Table 3."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
