"""Work directories: one run's configuration, tokenizers, checkpoints, logs and scores."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
