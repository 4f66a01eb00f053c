"""Which of our positions a foreign table holds.

There are three formulas about. Marian itself, in C++, has tensor2tensor's ("t2t"): sines before cosines, exponents
i / (d/2 - 1). Hugging Face's and CTranslate2's converters of the same models write 2i / d ("marian"), and translate so
ever since. OpenNMT-tf's, which CTranslate2 computes where a model has no table, is tensor2tensor's counted from 1.
"""

import numpy as np

from tf_transformer.layers.position import KINDS, sinusoidal_encoding

_COMPUTED = [kind for kind in KINDS if kind != "learned"]
# A table in float16 or computed in float32 at large angles is this near to ours.
_TOLERANCE = 2e-3
_COMPARED = 512
_OPENNMT_ROWS = 2048


def position_fields(source: np.ndarray | None, target: np.ndarray | None, layers: dict, dim: int) -> dict:
    """`positions` and `max_positions` of `ModelConfig`; tables that no formula gives go into `layers` as learned.

    Args:
        source, target: tables (positions, D); None: OpenNMT-tf's positions.
        layers: the model's weights by our names.
        dim: D.
    """
    source, target = (_opennmt(dim) if table is None else np.asarray(table, np.float32) for table in (source, target))
    for kind in _COMPUTED if dim % 2 == 0 else ():
        if all(_is(kind, table) for table in (source, target)):
            return {"positions": kind}
    rows = min(len(source), len(target))
    layers["source_positions/table"], layers["target_positions/table"] = source[:rows].copy(), target[:rows].copy()
    return {"positions": "learned", "max_positions": rows}


def _is(kind: str, table: np.ndarray) -> bool:
    rows = min(len(table), _COMPARED)
    expected = np.asarray(sinusoidal_encoding(np.arange(rows), table.shape[1], kind))
    return np.allclose(table[:rows], expected, rtol=0, atol=_TOLERANCE)


def _opennmt(dim: int) -> np.ndarray:
    return np.asarray(sinusoidal_encoding(np.arange(1, _OPENNMT_ROWS + 1), dim, "t2t"))
