"""A model as a stranger's files describe it: weights under our names, vocabulary rows still in their order."""

import dataclasses

import numpy as np

# Above all models of this kind, below what a forged size could ask for.
MAX_LAYERS = 200


class ImportedModelError(ValueError):
    """Files that cannot be imported: missing, damaged, or of a model with a part that we do not have."""


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokens of the rows of an embedding, and which rows are special.

    Attributes:
        tokens: of rows 0, 1, 2 …; a table may have further rows, without a token.
        end, unknown: their rows.
        pad: its row; None: the model has none.
        start: the row that the decoder starts from; None: it starts from a vector of zeros, as Marian does.
    """

    tokens: tuple[str, ...]
    end: int
    unknown: int | None
    pad: int | None
    start: int | None


@dataclasses.dataclass(frozen=True)
class ForeignModel:
    """What a reader of one format returns.

    Attributes:
        format: its name, for people.
        architecture: fields of `ModelConfig`, without vocabularies and embeddings.
        layers: the weights of both stacks, and learned positions, under our names.
        source_table, target_table, output_table: (V, D) each; the last is the transposed projection to logits.
        output_bias: (V,) or None.
        source, target: the vocabularies; the same object where they are shared.
        source_pieces, target_pieces: the SentencePiece models' bytes; None for the target: only one came.
        source_end: whether the encoder reads an end token behind a text.
        languages: of source and target, where the files say.
        licence: that the files state.
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
    source_end: bool = True
    languages: tuple[str | None, str | None] = (None, None)
    licence: str | None = None


def vocabulary(tokens, name, end="</s>", unknown="<unk>", pads=("<pad>", "<blank>"), start=None) -> Vocabulary:
    """The vocabulary of a list of tokens.

    Args:
        tokens: of rows 0, 1, 2 …
        name: of the file, for messages.
        end, unknown, pads: what the special tokens are called; of `pads` the first that there is counts.
        start: the token that the decoder starts from; None: from zeros.
    """
    rows = {token: row for row, token in enumerate(tokens)}
    if len(rows) != len(tokens):
        raise ImportedModelError(f"{name}: a vocabulary has each token once; {len(tokens) - len(rows)} are repeated.")
    if end not in rows:
        raise ImportedModelError(f"{name}: the vocabulary has no token {end!r} that ends a sentence.")
    if start is not None and start not in rows:
        raise ImportedModelError(f"{name}: the vocabulary has no token {start!r}, which the decoder starts from.")
    pad = next((rows[token] for token in pads if token in rows), None)
    return Vocabulary(tuple(tokens), rows[end], rows.get(unknown), pad, None if start is None else rows[start])
