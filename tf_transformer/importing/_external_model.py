"""A model as external files describe it, and the order of its vocabulary rows in ours.

Models from elsewhere have their special tokens anywhere, some lack a padding, some start the decoder from a vector of
zeros. After this they look like a model of our own, with the ids 0, 1, 2 and 3.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_transformer.text import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Languages

# Above all models of this kind, below what a forged size could ask for.
MAX_LAYERS = 200
MAX_HEADS = 1024
MAX_DIM = 1 << 14
MAX_FEED_FORWARD_DIM = 1 << 17


class ImportedModelError(ValueError):
    """Files that cannot be imported: missing, damaged, or of a model with a part that we do not have.

    The one exception type of every reader; its message names the file.
    """


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokens of the rows of an embedding, and which rows are special.

    Attributes:
        tokens: of rows 0, 1, 2 …; a table may have further rows, without a token.
        eos, unk: their rows.
        pad: its row; None: the model has none.
        decoder_start: the row that the decoder starts from; None: it starts from a vector of zeros, as Marian does.
    """

    tokens: tuple[str, ...]
    eos: int
    unk: int | None
    pad: int | None
    decoder_start: int | None


@dataclasses.dataclass(frozen=True)
class ExternalModel:
    """An external model, as a reader of one format returns it.

    Attributes:
        format: its name, for messages.
        architecture: fields of `ModelConfig`, without vocabularies and embeddings.
        layers: the weights of both stacks, and learned positions, under our names.
        source_table, target_table, output_table: (V, D) each; the last is the transposed projection to logits.
        output_bias: (V,) or None.
        source, target: the vocabularies; the same object where they are shared.
        source_pieces, target_pieces: the SentencePiece models' bytes; None for the target: only one came.
        add_source_eos: whether sources end in EOS.
        languages: of source and target, where the files say.
        licence: that the files state.
        search: fields of `DecodingConfig` that the files state, or that the format's own program has by default.
        multilingual: the languages of a multilingual model, whose `tokens` are rows of the vocabularies.
    """

    format: str
    architecture: dict
    layers: dict[str, np.ndarray]
    source_table: np.ndarray
    target_table: np.ndarray
    output_table: np.ndarray
    output_bias: np.ndarray | None
    source: Vocabulary
    target: Vocabulary
    source_pieces: bytes
    target_pieces: bytes | None
    add_source_eos: bool = True
    languages: tuple[str | None, str | None] = (None, None)
    licence: str | None = None
    search: dict = dataclasses.field(default_factory=dict)
    multilingual: Languages | None = None

    def without_weights(self) -> "ExternalModel":
        """The facts alone, so that the weights need not stay in memory."""
        none = np.zeros((0, 0), np.float32)
        return dataclasses.replace(self, layers={}, source_table=none, target_table=none, output_table=none)


MAX_BEAM_SIZE = 64
MAX_ALPHA = 10.0
MAX_LENGTH_FACTOR = 1000.0


def search_settings(beam_size: Any, alpha: Any, name: str) -> dict:
    """Fields of `DecodingConfig` from the two settings that all formats have; their length penalty is the average's.

    Args:
        beam_size: None: not stated.
        alpha: exponent of the length; None: not stated.
        name: of the file, for messages.
    """
    settings: dict = {}
    if beam_size is not None:
        if type(beam_size) is not int or not 1 <= beam_size <= MAX_BEAM_SIZE:
            raise ImportedModelError(
                f"{name}: expected a beam size from 1 to {MAX_BEAM_SIZE}. Received: {beam_size!s:.80}."
            )
        settings["beam_size"] = beam_size
    if alpha is not None:
        if type(alpha) not in (int, float) or not 0 <= alpha <= MAX_ALPHA:
            raise ImportedModelError(
                f"{name}: expected a length normalization from 0 to {MAX_ALPHA:g}. Received: {alpha!s:.80}."
            )
        settings |= {"length_penalty": "average", "alpha": float(alpha)}
    return settings


def vocabulary(
    tokens: Sequence[str],
    name: str,
    eos: str = "</s>",
    unk: str = "<unk>",
    pads: Sequence[str] = ("<pad>", "<blank>"),
    decoder_start: str | None = None,
) -> Vocabulary:
    """The vocabulary of a list of tokens.

    Args:
        tokens: of rows 0, 1, 2 …
        name: of the file, for messages.
        eos, unk, pads: names of the special tokens; of `pads` the first that there is counts.
        decoder_start: the token that the decoder starts from; None: from zeros.
    """
    rows = {token: row for row, token in enumerate(tokens)}
    if len(rows) != len(tokens):
        raise ImportedModelError(
            f"{name}: expected each token once. Received: {len(tokens) - len(rows)} repeated tokens. Get the file "
            "again."
        )
    if eos not in rows:
        raise ImportedModelError(
            f"{name}: expected a vocabulary with {eos!r}, which ends a sentence. Received: {len(tokens):,} tokens "
            "without it."
        )
    if decoder_start is not None and decoder_start not in rows:
        raise ImportedModelError(
            f"{name}: expected a vocabulary with {decoder_start!r}, which the decoder starts from. Received: "
            f"{len(tokens):,} tokens without it."
        )
    pad = next((rows[token] for token in pads if token in rows), None)
    first = None if decoder_start is None else rows[decoder_start]
    return Vocabulary(tuple(tokens), rows[eos], rows.get(unk), pad, first)


# Added to the logit of a row that the model did not have, so that its probability is 0.
NEVER = -1000.0


@dataclasses.dataclass(frozen=True)
class RowOrder:
    """The order of external rows in our tables: which of them becomes row 0, 1, 2 …

    Attributes:
        rows: external rows; -1: none, a row of zeros.
        invented: ids of rows that the external model did not predict: those of zeros, and copies.
    """

    rows: np.ndarray
    invented: tuple[int, ...]

    @classmethod
    def of(cls, vocabulary: Vocabulary, size: int) -> "RowOrder":
        """The order of a table with `size` rows."""
        special = [-1] * 4
        wanted = {PAD_ID: vocabulary.pad, UNK_ID: vocabulary.unk, EOS_ID: vocabulary.eos}
        for place, row in (wanted | {BOS_ID: vocabulary.decoder_start}).items():
            special[place] = -1 if row is None else row
        # Hugging Face's Marian starts from its padding, fairseq's models from their end: the row then serves two ids,
        # and is predicted as one.
        shared = special[BOS_ID] != -1 and special[BOS_ID] in (special[PAD_ID], special[EOS_ID])
        invented = {place for place, row in enumerate(special) if row == -1} | ({BOS_ID} if shared else set())
        others = np.setdiff1d(np.arange(size), [row for row in special if row != -1])
        return cls(np.concatenate([special, others]).astype(np.int64), tuple(sorted(invented)))

    def equals(self, other: "RowOrder") -> bool:
        return self is other or np.array_equal(self.rows, other.rows)

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

    def ids_of_rows(self) -> dict[int, int]:
        """The id of each row. Where the start shares the row of another token, it is the other's."""
        places = {row: place for place, row in enumerate(self.rows.tolist()) if row != -1}
        return places | {int(self.rows[place]): place for place in (PAD_ID, EOS_ID) if self.rows[place] != -1}

    def ids(self, vocabulary: Vocabulary) -> dict[str, int]:
        """The id of each token."""
        places = self.ids_of_rows()
        return {token: places[row] for row, token in enumerate(vocabulary.tokens) if row in places}
