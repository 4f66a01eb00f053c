from ._binary import MarianShortlist as MarianShortlist
from ._binary import is_marian_binary as is_marian_binary
from ._binary import read_marian_binary as read_marian_binary
from ._binary import read_shortlist as read_shortlist
from ._model import is_marian_folder as is_marian_folder
from ._model import read_marian as read_marian

__all__ = [
    "MarianShortlist",
    "is_marian_binary",
    "is_marian_folder",
    "read_marian",
    "read_marian_binary",
    "read_shortlist",
]
