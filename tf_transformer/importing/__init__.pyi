from ._archive import unpack as unpack
from ._external_model import ImportedModelError as ImportedModelError
from ._importer import import_model as import_model
from ._importer import read_model as read_model
from ._pieces import sentencepiece_files as sentencepiece_files
from ._report import report as report
from ._report import translate_sample as translate_sample

__all__ = [
    "ImportedModelError",
    "import_model",
    "read_model",
    "report",
    "sentencepiece_files",
    "translate_sample",
    "unpack",
]
