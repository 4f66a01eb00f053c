"""Registration of the serializable Keras classes, without importing Keras for those who do not need it.

`import tf_transformer` does not import Keras, which takes seconds that the command line's help and the HTTP client do
not have. If Keras is imported already, the classes are registered now; otherwise as soon as it is imported.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_MODULES = (
    "tf_transformer.layers._decoder",
    "tf_transformer.layers._dropout",
    "tf_transformer.layers._embedding",
    "tf_transformer.layers._encoder",
    "tf_transformer.layers._feed_forward",
    "tf_transformer.layers._multi_head_attention",
    "tf_transformer.layers._position",
    "tf_transformer.layers._projection",
    "tf_transformer.layers._ssru",
    "tf_transformer.model",
    "tf_transformer.training._losses",
    "tf_transformer.training._schedules",
)
"""Every module with a class decorated by `keras.saving.register_keras_serializable`."""


def register_with_keras() -> None:
    """Import the modules of the serializable classes: now if Keras is imported already, otherwise right after it is."""
    if getattr(sys.modules.get("keras"), "__version__", None):
        _import_all()
    else:
        sys.meta_path.insert(0, _AfterKeras())


def _import_all() -> None:
    for name in _MODULES:
        importlib.import_module(name)


class _AfterKeras(importlib.abc.MetaPathFinder):
    """Finder of `keras` that adds the registration to its loader, until Keras has been imported."""

    _searching = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "keras" or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec("keras")
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec


class _Loader(importlib.abc.Loader):
    """Keras' own loader, followed by the registration. Everything else is passed on to Keras' loader."""

    def __init__(self, loader: importlib.abc.Loader, finder: _AfterKeras) -> None:
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        # Only now: an import of Keras that failed may be tried again.
        sys.meta_path.remove(self._finder)
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader
        _import_all()
