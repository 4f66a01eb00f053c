from ._batching import BatchOptions as BatchOptions
from ._batching import BatchStream as BatchStream
from ._keras_dataset import as_dataset as as_dataset
from ._prepared import PreparedDataset as PreparedDataset
from ._prepared import PreparedError as PreparedError
from ._records import RecordError as RecordError
from ._shapes import BatchShape as BatchShape
from .corpora import Corpus as Corpus
from .corpora import CorpusError as CorpusError
from .corpora import Pair as Pair
from .corpora import open_corpus as open_corpus
from .preparation import BadUtf8 as BadUtf8
from .preparation import Cleaner as Cleaner
from .preparation import CleaningReport as CleaningReport
from .preparation import Empty as Empty
from .preparation import PrepareOptions as PrepareOptions
from .preparation import TooLong as TooLong
from .preparation import prepare as prepare

__all__ = [
    "BadUtf8",
    "BatchOptions",
    "BatchShape",
    "BatchStream",
    "Cleaner",
    "CleaningReport",
    "Corpus",
    "CorpusError",
    "Empty",
    "Pair",
    "PrepareOptions",
    "PreparedDataset",
    "PreparedError",
    "RecordError",
    "TooLong",
    "as_dataset",
    "open_corpus",
    "prepare",
]
