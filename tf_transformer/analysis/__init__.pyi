from . import ablation as ablation
from . import attention as attention

__all__ = ["ablation", "attention"]
