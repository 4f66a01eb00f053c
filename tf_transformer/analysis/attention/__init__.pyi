from ._alignment import AlignmentCandidate as AlignmentCandidate
from ._alignment import candidates_text as candidates_text
from ._alignment import compare_alignment_heads as compare_alignment_heads
from ._figures import heatmaps as heatmaps
from ._figures import lines as lines
from ._maps import KINDS as KINDS
from ._maps import AttentionMaps as AttentionMaps
from ._maps import attention_maps as attention_maps
from ._maps import maps_of_workdir as maps_of_workdir
from ._overviews import position_vectors as position_vectors
from ._overviews import positions_figure as positions_figure
from ._overviews import positions_of_model as positions_of_model
from ._overviews import summary_figure as summary_figure
from ._page import page as page
from ._page import write_figure as write_figure
from ._page import write_maps as write_maps
from ._page import write_summary as write_summary
from ._summary import HeadSummary as HeadSummary
from ._summary import summarize_heads as summarize_heads
from ._summary import summary_rows as summary_rows
from ._summary import summary_text as summary_text

__all__ = [
    "KINDS",
    "AlignmentCandidate",
    "AttentionMaps",
    "HeadSummary",
    "attention_maps",
    "candidates_text",
    "compare_alignment_heads",
    "heatmaps",
    "lines",
    "maps_of_workdir",
    "page",
    "position_vectors",
    "positions_figure",
    "positions_of_model",
    "summarize_heads",
    "summary_figure",
    "summary_rows",
    "summary_text",
    "write_figure",
    "write_maps",
    "write_summary",
]
