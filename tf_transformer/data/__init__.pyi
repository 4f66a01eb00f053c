from ._datasets import BatchOptions as BatchOptions
from ._datasets import batch_shapes as batch_shapes
from ._datasets import keras_inputs as keras_inputs
from ._datasets import padding_dataset as padding_dataset
from ._datasets import training_dataset as training_dataset
from ._datasets import validation_dataset as validation_dataset
from ._gathering import Replicas as Replicas
from ._input_pipeline import Position as Position
from ._lexical_table import LexicalTable as LexicalTable
from ._lexical_table import lexical_table as lexical_table
from ._prepared import PreparedDataset as PreparedDataset
from ._prepared import PreparedError as PreparedError
from ._record_layout import RecordError as RecordError
from ._records import failed_assertion as failed_assertion
from ._service import DataServiceError as DataServiceError
from ._service import call_within as call_within
from ._shapes import BatchShape as BatchShape
from ._text_dataset import text_dataset as text_dataset
from .corpora import Corpus as Corpus
from .corpora import CorpusError as CorpusError
from .corpora import Pair as Pair
from .corpora import WeightedFiles as WeightedFiles
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
    "Cleaner",
    "CleaningReport",
    "Corpus",
    "CorpusError",
    "DataServiceError",
    "Empty",
    "LexicalTable",
    "Pair",
    "Position",
    "PrepareOptions",
    "PreparedDataset",
    "PreparedError",
    "RecordError",
    "Replicas",
    "TooLong",
    "WeightedFiles",
    "batch_shapes",
    "call_within",
    "failed_assertion",
    "keras_inputs",
    "lexical_table",
    "open_corpus",
    "padding_dataset",
    "prepare",
    "text_dataset",
    "training_dataset",
    "validation_dataset",
]
