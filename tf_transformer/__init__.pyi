from . import analysis as analysis
from . import data as data
from . import decoding as decoding
from . import distillation as distillation
from . import evaluation as evaluation
from . import importing as importing
from . import layers as layers
from . import text as text
from . import training as training
from . import workdir as workdir
from ._version import __version__ as __version__
from .config import Config as Config
from .config import DecodingConfig as DecodingConfig
from .config import ModelConfig as ModelConfig
from .config import TrainingConfig as TrainingConfig
from .decoding import Translator as Translator
from .model import Transformer as Transformer
from .presets import get_preset as get_preset
from .training import LabelSmoothedCrossEntropy as LabelSmoothedCrossEntropy
from .training import NoamSchedule as NoamSchedule
from .workdir import Workdir as Workdir

__all__ = [
    "Config",
    "DecodingConfig",
    "LabelSmoothedCrossEntropy",
    "ModelConfig",
    "NoamSchedule",
    "TrainingConfig",
    "Transformer",
    "Translator",
    "Workdir",
    "__version__",
    "analysis",
    "data",
    "decoding",
    "distillation",
    "evaluation",
    "get_preset",
    "importing",
    "layers",
    "text",
    "training",
    "workdir",
]
