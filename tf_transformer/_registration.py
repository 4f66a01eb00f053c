"""Registration of the serialisable Keras classes, without importing Keras for those who do not need it."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

_MODULES = (
    "tf_transformer.layers._decoder",
    "tf_transformer.layers._embedding",
    "tf_transformer.layers._encoder",
    "tf_transformer.layers._feed_forward",
    "tf_transformer.layers._multi_head_attention",
    "tf_transformer.layers._position",
    "tf_transformer.layers._projection",
    "tf_transformer.model",
    "tf_transformer.training._losses",
    "tf_transformer.training._schedules",
)
"""Every module with a class decorated by `keras.saving.register_keras_serializable`."""


def register_with_keras() -> None:
    """Imports the serialisable classes: now if Keras is imported already, otherwise right after it is."""
    if getattr(sys.modules.get("keras"), "__version__", None):
        _import_all()
    else:
        sys.meta_path.insert(0, _AfterKeras())


def _import_all() -> None:
    for name in _MODULES:
        importlib.import_module(name)


class _AfterKeras(importlib.abc.MetaPathFinder):
    """Finds `keras` once, with a loader that imports our classes after it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "keras":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("keras")
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Keras' own loader, followed by the registration."""

    def __init__(self, loader: importlib.abc.Loader):
        self._loader = loader

    def __getattr__(self, name: str):
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _import_all()
