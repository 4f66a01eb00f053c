"""The reader of a Hugging Face folder, chosen by the model type in its config.json."""

import os
import pathlib

from tf_transformer.importing._external_model import ExternalModel, ImportedModelError
from tf_transformer.importing._settings import read_json, show
from tf_transformer.importing.huggingface._folder import Settings
from tf_transformer.importing.huggingface._marian import read_marian_folder
from tf_transformer.importing.huggingface._multilingual import MODEL_TYPES, read_multilingual_folder


def read_huggingface(
    directory: pathlib.Path, source_file: str | os.PathLike | None = None, target_file: str | os.PathLike | None = None
) -> ExternalModel:
    """The model of a folder that `save_pretrained` of one of the families wrote, with its tokenizer's files.

    Args:
        source_file, target_file: SentencePiece models, where they are not in the folder.
    """
    file = directory / "config.json"
    config = Settings(read_json(file), file)
    kind = config.get("model_type")
    if kind == "marian":
        return read_marian_folder(directory, config, source_file, target_file)
    if kind in MODEL_TYPES:
        return read_multilingual_folder(directory, config, source_file, target_file)
    known = ", ".join(map(repr, ("marian", *MODEL_TYPES)))
    raise ImportedModelError(
        f"{file}: expected one of {known} as model_type. Received: {show(kind)}. Other models cannot be imported."
    )
