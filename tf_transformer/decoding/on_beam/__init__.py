"""Translation of text files on Apache Beam: shards of lines, each translated once, by an exported SavedModel."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
