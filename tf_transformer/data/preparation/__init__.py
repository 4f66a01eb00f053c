"""Preparation of a corpus: cleaning, vocabulary, encoding, and TFRecord shards with `dataset.json`."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
