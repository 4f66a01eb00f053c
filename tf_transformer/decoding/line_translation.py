"""Translating lines of any number, a bounded chunk at a time, in their order."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from tf_transformer.decoding.length_batches import in_batches
from tf_transformer.decoding.side_by_side import batches_at_a_time
from tf_transformer.decoding.translation import Translation
from tf_transformer.text.lines import as_cell, as_line, chunks

CHUNK_LINES = 4096
CHUNK_BYTES = 4 << 20
# Scores at or below this stand for hypotheses that a search did not find.
_NONE = -1e8


@dataclasses.dataclass
class LineTranslation:
    """Lines in, translated lines out.

    Args:
        model: what translates, a `LoadedModel` or an `ExportedModel`.
        n_best: None for one line a line; else a table with so many rows a line: number of the line, rank, score, text.
        chunk_lines: lines held at a time; within them, lines of similar length are translated together.
        done: told the number of lines after each batch.

    Attributes:
        lines: how many lines were translated.
        truncated: the numbers of the first few lines that the model cut, counted from 1.
        num_truncated: how many it cut.
    """

    model: object
    n_best: int | None = None
    chunk_lines: int = CHUNK_LINES
    done: Callable[[int], None] | None = None
    lines: int = 0
    truncated: list[int] = dataclasses.field(default_factory=list)
    num_truncated: int = 0

    def __post_init__(self):
        if self.n_best is not None and not 1 <= self.n_best <= self.model.limit:
            raise ValueError(
                f"{self.model.name} gives from 1 to {self.model.limit} translations a line, not {self.n_best}; "
                "ask for fewer, or widen the beam."
            )

    def __call__(self, lines: Iterable[bytes]) -> Iterator[str]:
        """Lines to text to write: for each chunk its translations, each with a line feed."""
        call = self.model.translate if self.n_best is None else self.model.n_best
        for chunk in chunks(lines, self.chunk_lines, CHUNK_BYTES):
            yield "".join(map(self._output, in_batches(call, chunk, threads=batches_at_a_time(), done=self.done)))

    def _output(self, found: Translation) -> str:
        self.lines += 1
        if found.truncated:
            self.num_truncated += 1
            self.truncated = [*self.truncated, self.lines][:5]
        if self.n_best is None:
            return as_line(found.texts[0]) + "\n"
        return "".join(self._row(found, rank) for rank in range(self.n_best))

    def _row(self, found: Translation, rank: int) -> str:
        # A search may find fewer hypotheses than were asked for. The first row is always given.
        if rank > 0 and found.scores[rank] <= _NONE:
            return ""
        return f"{self.lines}\t{rank + 1}\t{found.scores[rank]:.6f}\t{as_cell(found.texts[rank])}\n"
