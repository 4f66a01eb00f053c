from ._archive import unpack as unpack
from ._external_model import ImportedModelError as ImportedModelError
from ._importer import import_model as import_model
from ._importer import read_model as read_model
from ._pieces import sentencepiece_files as sentencepiece_files

__all__ = ["ImportedModelError", "import_model", "read_model", "sentencepiece_files", "unpack"]
