from . import inspection as inspection
from . import serving as serving
from ._ctranslate2 import export_ctranslate2 as export_ctranslate2
from ._keras_model import export_model as export_model
from ._matrices import pack_model as pack_model
from ._matrices import quantize_model as quantize_model
from ._saved_model import Export as Export
from ._saved_model import export_saved_model as export_saved_model
from ._verify import ExportRejected as ExportRejected

__all__ = [
    "Export",
    "ExportRejected",
    "export_ctranslate2",
    "export_model",
    "export_saved_model",
    "inspection",
    "pack_model",
    "quantize_model",
    "serving",
]
