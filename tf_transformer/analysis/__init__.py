"""Analysis of trained models: attention maps, ablations as in the paper's Table 3, and learning curves."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
