from ._beam_files import BLOCK_LINES as BLOCK_LINES
from ._beam_files import blocks_of as blocks_of
from ._beam_files import open_parallel_files_on_beam as open_parallel_files_on_beam
from ._beam_files import open_text_files_on_beam as open_text_files_on_beam
from ._corpus import Corpus as Corpus
from ._corpus import CorpusError as CorpusError
from ._corpus import LanguagePair as LanguagePair
from ._corpus import Pair as Pair
from ._corpus import Split as Split
from ._open import open_corpus as open_corpus
from ._text_files import WeightedFiles as WeightedFiles
from ._text_files import open_text_files as open_text_files
from ._tfds import open_tfds_corpus as open_tfds_corpus
from .phrasebook.corpus import AlignedPair as AlignedPair
from .phrasebook.corpus import phrasebook_alignments as phrasebook_alignments

__all__ = [
    "BLOCK_LINES",
    "AlignedPair",
    "Corpus",
    "CorpusError",
    "LanguagePair",
    "Pair",
    "Split",
    "WeightedFiles",
    "blocks_of",
    "open_corpus",
    "open_parallel_files_on_beam",
    "open_text_files",
    "open_text_files_on_beam",
    "open_tfds_corpus",
    "phrasebook_alignments",
]
