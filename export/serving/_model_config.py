"""The models to serve: directories, or a file in the format of TensorFlow Serving's `--model_config_file`."""

import os
import pathlib
from collections.abc import Iterable
from typing import Any

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from tf_transformer.export.serving._models import ModelSource


def sources_of_directories(directories: Iterable, name: str | None = None) -> list[ModelSource]:
    """One model per directory, called after the directory; `name` is for a single one."""
    bases = [pathlib.Path(each) for each in directories]
    if name is not None and len(bases) != 1:
        raise ValueError(f"expected one MODEL_BASE with a name. Received: {len(bases)}. Use a model config file")
    return _distinct([ModelSource(name or base.resolve().name, base) for base in bases], "the directories")


def read_model_config(path: str | os.PathLike) -> list[ModelSource]:
    """The models of a text protobuf `ModelServerConfig`.

    Raises:
        ValueError: It is no such file, or needs a feature that this server does not have.
    """
    path = pathlib.Path(path)
    config = model_server_config_pb2.ModelServerConfig()
    try:
        text_format.Parse(path.read_text(encoding="utf-8"), config)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a model config file: {error}") from error
    models = [_source(path, model) for model in config.model_config_list.config]
    if not models:
        raise ValueError(f"expected model_config_list {{ config {{ … }} }} in {path}. Received: no model")
    return _distinct(models, str(path))


def _source(path: pathlib.Path, model: Any) -> ModelSource:
    if not model.name or not model.base_path:
        raise ValueError(f"expected 'name' and 'base_path' of every model in {path}. Received: {_line(model)}")
    if model.model_platform not in ("", "tensorflow"):
        raise ValueError(f"expected model_platform 'tensorflow' in {path}. Received: {model.model_platform!r}")
    if not pathlib.Path(model.base_path).is_absolute():  # TensorFlow Serving rejects it too
        raise ValueError(f"expected an absolute base_path of {model.name!r} in {path}. Received: {model.base_path!r}")
    policy = model.model_version_policy
    kind = policy.WhichOneof("policy_choice") or "latest"
    latest: int | None = (policy.latest.num_versions or 1) if kind == "latest" else None
    versions = frozenset(policy.specific.versions) if kind == "specific" else None
    return ModelSource(model.name, pathlib.Path(model.base_path), latest, versions, dict(model.version_labels))


def _distinct(models: list[ModelSource], where: str) -> list[ModelSource]:
    names = [model.name for model in models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"expected a different name for every model in {where}. Received: {', '.join(twice)} twice")
    return models


def _line(message: Any) -> str:
    return text_format.MessageToString(message, as_one_line=True)[:100]
