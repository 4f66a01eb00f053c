"""The rows of a foreign vocabulary in our order: padding, unknown, start, end, then the others as they were.

Models from elsewhere have their special tokens anywhere, some lack a padding, some start the decoder from a vector of
zeros. After this they look like a model of our own, with the ids 0, 1, 2 and 3.
"""

import dataclasses

import numpy as np

from tf_transformer.importing.foreign_model import Vocabulary
from tf_transformer.text.subwords import END_ID, PAD_ID, START_ID, UNKNOWN_ID

# Added to the logit of a row that the model did not have, so that its probability is 0.
NEVER = -1000.0


@dataclasses.dataclass(frozen=True)
class RowOrder:
    """Which foreign row becomes row 0, 1, 2 …

    Attributes:
        rows: foreign rows; -1: none, a row of zeros.
        invented: ids of rows that the foreign model did not predict: those of zeros, and copies.
    """

    rows: np.ndarray
    invented: tuple[int, ...]

    @classmethod
    def of(cls, vocabulary: Vocabulary, size: int) -> "RowOrder":
        """The order of a table with `size` rows."""
        special = [-1] * 4
        wanted = {PAD_ID: vocabulary.pad, UNKNOWN_ID: vocabulary.unknown, END_ID: vocabulary.end}
        for place, row in (wanted | {START_ID: vocabulary.start}).items():
            special[place] = -1 if row is None else row
        # Hugging Face's Marian starts from its padding, fairseq's models from their end: the row then serves two ids,
        # and is predicted as one.
        shared = special[START_ID] != -1 and special[START_ID] in (special[PAD_ID], special[END_ID])
        invented = {place for place, row in enumerate(special) if row == -1} | ({START_ID} if shared else set())
        others = np.setdiff1d(np.arange(size), [row for row in special if row != -1])
        return cls(np.concatenate([special, others]).astype(np.int64), tuple(sorted(invented)))

    @property
    def is_identity(self) -> bool:
        return not self.invented and np.array_equal(self.rows, np.arange(len(self.rows)))

    def table(self, table: np.ndarray) -> np.ndarray:
        """An embedding (V, D) in our order."""
        ordered = np.asarray(table, np.float32)[self.rows]
        ordered[self.rows == -1] = 0.0
        return ordered

    def bias(self, bias: np.ndarray | None) -> np.ndarray | None:
        """A bias of the logits (V,) in our order; one is made where rows were invented."""
        if bias is None and not self.invented:
            return None
        bias = np.zeros(self.rows.max() + 1, np.float32) if bias is None else np.asarray(bias, np.float32)
        ordered = bias[self.rows]
        ordered[list(self.invented)] = NEVER
        return ordered

    def ids(self, vocabulary: Vocabulary) -> dict[str, int]:
        """The id of each token. Where the start shares the row of another, it is the other."""
        places = {row: place for place, row in enumerate(self.rows.tolist()) if row != -1}
        places |= {int(self.rows[place]): place for place in (PAD_ID, END_ID) if self.rows[place] != -1}
        return {token: places[row] for row, token in enumerate(vocabulary.tokens) if row in places}
