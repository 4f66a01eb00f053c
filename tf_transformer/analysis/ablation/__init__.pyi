from ._rows import AblationOptions as AblationOptions
from ._run import Ablation as Ablation

__all__ = ["Ablation", "AblationOptions"]
