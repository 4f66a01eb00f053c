"""The two parts of each piece of a vocabulary: what subword dropout replaces a piece by."""

import itertools

import numpy as np
from sentencepiece import sentencepiece_model_pb2

from tf_transformer.text._subwords import Subwords

_NORMAL = sentencepiece_model_pb2.ModelProto.SentencePiece.NORMAL
_BPE = sentencepiece_model_pb2.TrainerSpec.BPE


def piece_splits(subwords: Subwords) -> np.ndarray:
    """The ids of the two parts of each piece, [V, 2] int32; -1 for pieces without parts.

    The parts of a BPE piece are those of its last merge; of a unigram piece, the two pieces of the largest total score.
    Characters, bytes, control symbols and pieces whose parts have no id of their own have no parts.
    """
    proto = sentencepiece_model_pb2.ModelProto.FromString(subwords.model)
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == _NORMAL}
    parts_of = _last_merge if proto.trainer_spec.model_type == _BPE else _best_split
    table = np.full((subwords.vocab_size, 2), -1, np.int32)
    for piece in scores:
        parts = parts_of(piece, scores)
        ids = [subwords.id_of(text) for text in (piece, *(parts or ()))]
        if parts and subwords.unk_id not in ids:
            table[ids[0]] = ids[1:]
    return table


def _last_merge(piece: str, scores: dict[str, float]) -> tuple[str, str] | None:
    """The two symbols that BPE merges last when it builds a piece; None if it cannot."""
    symbols = list(piece)
    while len(symbols) > 2:
        merged = [left + right for left, right in itertools.pairwise(symbols)]
        best = max(range(len(merged)), key=lambda i: (scores.get(merged[i], -np.inf), -i))
        if merged[best] not in scores:
            return None
        symbols[best : best + 2] = [merged[best]]
    return _known((symbols[0], symbols[1]), scores) if len(symbols) == 2 else None


def _best_split(piece: str, scores: dict[str, float]) -> tuple[str, str] | None:
    """The two pieces of the largest total score that make up a piece; None if there are none."""
    splits = ((piece[:i], piece[i:]) for i in range(1, len(piece)))
    known = [split for split in splits if _known(split, scores)]
    return max(known, key=lambda split: scores[split[0]] + scores[split[1]], default=None)


def _known(split: tuple[str, str], scores: dict[str, float]) -> tuple[str, str] | None:
    return split if split[0] in scores and split[1] in scores else None
