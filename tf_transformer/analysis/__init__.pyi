from . import ablation as ablation
from . import attention as attention
from ._curves import Curve as Curve
from ._curves import curves_figure as curves_figure
from ._curves import read_curves as read_curves

__all__ = ["Curve", "ablation", "attention", "curves_figure", "read_curves"]
