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
    "AlignedPair",
    "Corpus",
    "CorpusError",
    "LanguagePair",
    "Pair",
    "Split",
    "WeightedFiles",
    "open_corpus",
    "open_text_files",
    "open_tfds_corpus",
    "phrasebook_alignments",
]
