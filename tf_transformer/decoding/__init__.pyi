from ._alignment import link_words as link_words
from ._alignment import side_of_text as side_of_text
from ._alignment import word_attention as word_attention
from ._batching import in_batches as in_batches
from ._batching import length_batches as length_batches
from ._batching import parallel_batches as parallel_batches
from ._batching import use_one_thread_per_op as use_one_thread_per_op
from ._beam_search import beam_search as beam_search
from ._checks import LengthRange as LengthRange
from ._decoder_step import DecoderStep as DecoderStep
from ._documents import WARNINGS as WARNINGS
from ._loop import SMALL_STEP as SMALL_STEP
from ._loop import in_small_step as in_small_step
from ._loop import separate_small_steps as separate_small_steps
from ._options import CandidateVocabulary as CandidateVocabulary
from ._options import Hypotheses as Hypotheses
from ._options import SearchOptions as SearchOptions
from ._options import Step as Step
from ._options import StepResult as StepResult
from ._options import UncachedStep as UncachedStep
from ._results import Alignment as Alignment
from ._results import DocumentTranslation as DocumentTranslation
from ._results import PairScore as PairScore
from ._results import Translation as Translation
from ._results import count_truncated as count_truncated
from ._sampling import SamplingOptions as SamplingOptions
from ._sampling import greedy_search as greedy_search
from ._sampling import sample as sample
from ._search import search_ids as search_ids
from ._shortlist import CandidateTable as CandidateTable
from ._shortlist import Shortlist as Shortlist
from ._text_model import CHUNK_BYTES as CHUNK_BYTES
from ._text_model import CHUNK_LINES as CHUNK_LINES
from ._text_model import ExportedModel as ExportedModel
from ._text_model import LineTranslation as LineTranslation
from ._text_model import LoadedModel as LoadedModel
from ._translator import Translator as Translator

__all__ = [
    "CHUNK_BYTES",
    "CHUNK_LINES",
    "SMALL_STEP",
    "WARNINGS",
    "Alignment",
    "CandidateTable",
    "CandidateVocabulary",
    "DecoderStep",
    "DocumentTranslation",
    "ExportedModel",
    "Hypotheses",
    "LengthRange",
    "LineTranslation",
    "LoadedModel",
    "PairScore",
    "SamplingOptions",
    "SearchOptions",
    "Shortlist",
    "Step",
    "StepResult",
    "Translation",
    "Translator",
    "UncachedStep",
    "beam_search",
    "count_truncated",
    "greedy_search",
    "in_batches",
    "in_small_step",
    "length_batches",
    "link_words",
    "parallel_batches",
    "sample",
    "search_ids",
    "separate_small_steps",
    "side_of_text",
    "use_one_thread_per_op",
    "word_attention",
]
