"""Downloads of models by name: repositories of the Hugging Face hub, and archives at an https address."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
