"""The Transformer of "Attention Is All You Need" for TensorFlow and Keras 3.

The public names are listed in `__init__.pyi` and loaded on first use, so that importing the package (for the help of
the command line, or for the HTTP client, which needs no TensorFlow) is fast. The serializable Keras classes are
registered as soon as Keras is imported: after `import tf_transformer`, `keras.saving.load_model` finds them.
"""

import lazy_loader as _lazy

from tf_transformer import _registration
from tf_transformer._version import __version__ as __version__

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)

_registration.register_with_keras()
