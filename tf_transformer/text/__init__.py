"""Text to ids and back: subword vocabularies with SentencePiece, in Python and in the TensorFlow graph."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
