"""Attention maps of a trained model as arrays, figures and an HTML page.

Example:
    >>> from tf_transformer.analysis.attention import heatmaps, maps_of_workdir
    >>> maps = maps_of_workdir("run", "the cat sleeps")
    >>> maps.cross.shape                  # (layers, heads, target positions, source positions)
    >>> heatmaps(maps, "cross").savefig("cross.svg")
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
