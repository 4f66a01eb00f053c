"""Export of a trained model as a SavedModel (or in CTranslate2's format), checked, inspected and served.

Installed, this package is `tf_transformer.export`. In a bare checkout (`python -m export.client`) nothing
has made that mapping, so the package that was found under its short name makes it for the whole checkout.
"""

import lazy_loader as _lazy

if __name__ == "export":
    import pathlib

    import tf_transformer

    tf_transformer.__path__.append(str(pathlib.Path(__file__).resolve().parent.parent))

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
