"""Parallel corpora: TensorFlow Datasets (WMT), text files, and the built-in phrasebook."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
