from ._alignment import AlignmentScore as AlignmentScore
from ._alignment import alignment_score as alignment_score
from ._alignment import parse_links as parse_links
from ._evaluation import Evaluation as Evaluation
from ._evaluation import evaluate as evaluate
from ._record import check_replaceable as check_replaceable
from ._record import record_name as record_name
from ._record import write_record as write_record
from ._scores import Score as Score
from ._scores import chrf_score as chrf_score
from ._scores import compound_split_score as compound_split_score
from ._scores import corpus_scores as corpus_scores
from ._scores import finite as finite
from ._scores import perplexity as perplexity
from ._scores import sacrebleu_score as sacrebleu_score
from ._shortlist import ShortlistEffect as ShortlistEffect
from ._shortlist import candidate_figures as candidate_figures
from ._shortlist import shortlist_effect as shortlist_effect

__all__ = [
    "AlignmentScore",
    "Evaluation",
    "Score",
    "ShortlistEffect",
    "alignment_score",
    "candidate_figures",
    "check_replaceable",
    "chrf_score",
    "compound_split_score",
    "corpus_scores",
    "evaluate",
    "finite",
    "parse_links",
    "perplexity",
    "record_name",
    "sacrebleu_score",
    "shortlist_effect",
    "write_record",
]
