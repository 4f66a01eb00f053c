from ._binary import MarianShortlist as MarianShortlist
from ._binary import is_binary_shortlist as is_binary_shortlist
from ._binary import is_marian_binary as is_marian_binary
from ._binary import read_marian_binary as read_marian_binary
from ._binary import read_shortlist as read_shortlist
from ._model import is_marian_folder as is_marian_folder
from ._model import read_marian as read_marian
from ._text_shortlist import read_text_shortlist as read_text_shortlist

__all__ = [
    "MarianShortlist",
    "is_binary_shortlist",
    "is_marian_binary",
    "is_marian_folder",
    "read_marian",
    "read_marian_binary",
    "read_shortlist",
    "read_text_shortlist",
]
