from . import checkpoints as checkpoints
from ._averaging import average_last as average_last
from ._weights import assign_model as assign_model
from ._weights import assign_tensors as assign_tensors
from ._weights import model_tensors as model_tensors
from ._weights import named_variables as named_variables
from ._workdir import CONFIG as CONFIG
from ._workdir import Workdir as Workdir
from ._workdir import package_versions as package_versions
from ._workdir import remove_leftovers as remove_leftovers
from ._workdir import write_config as write_config
from ._workdir import write_dataset_info as write_dataset_info

__all__ = [
    "CONFIG",
    "Workdir",
    "assign_model",
    "assign_tensors",
    "average_last",
    "checkpoints",
    "model_tensors",
    "named_variables",
    "package_versions",
    "remove_leftovers",
    "write_config",
    "write_dataset_info",
]
