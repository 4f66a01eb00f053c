"""What the paper reports for the rows of Table 3."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class PaperRow:
    """One row: English-German, newstest2013, beam search, no checkpoint averaging.

    Args:
        change: what the row changes, in the paper's letters.
        perplexity: a word piece, of the paper's byte-pair vocabulary.
        bleu: as the authors measured it; not sacreBLEU.
        parameters: in millions; None where the paper leaves it blank: as base.
    """

    change: str
    perplexity: float
    bleu: float
    parameters: int | None = None


PAPER: dict[str, PaperRow] = {
    "base": PaperRow("", 4.92, 25.8, 65),
    "A1": PaperRow("h=1, d_k=d_v=512", 5.29, 24.9),
    "A4": PaperRow("h=4, d_k=d_v=128", 5.00, 25.5),
    "A16": PaperRow("h=16, d_k=d_v=32", 4.91, 25.8),
    "A32": PaperRow("h=32, d_k=d_v=16", 5.01, 25.4),
    "B16": PaperRow("d_k=16", 5.16, 25.1, 58),
    "B32": PaperRow("d_k=32", 5.01, 25.4, 60),
    "C-N2": PaperRow("N=2", 6.11, 23.7, 36),
    "C-N4": PaperRow("N=4", 5.19, 25.3, 50),
    "C-N8": PaperRow("N=8", 4.88, 25.5, 80),
    "C-d256": PaperRow("d_model=256, d_k=d_v=32", 5.75, 24.5, 28),
    "C-d1024": PaperRow("d_model=1024, d_k=d_v=128", 4.66, 26.0, 168),
    "C-ff1024": PaperRow("d_ff=1024", 5.12, 25.4, 53),
    "C-ff4096": PaperRow("d_ff=4096", 4.75, 26.2, 90),
    "D-drop0.0": PaperRow("P_drop=0.0", 5.77, 24.6),
    "D-drop0.2": PaperRow("P_drop=0.2", 4.95, 25.5),
    "D-smooth0.0": PaperRow("label smoothing 0.0", 4.67, 25.3),
    "D-smooth0.2": PaperRow("label smoothing 0.2", 5.47, 25.7),
    "E": PaperRow("learned positions", 4.92, 25.7),
    "big": PaperRow("d_model=1024, d_ff=4096, h=16, P_drop=0.3, 300K steps", 4.33, 26.4, 213),
}
