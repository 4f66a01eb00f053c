"""A SentencePiece model file from an untrusted source: read and checked before any C++ code sees it.

SentencePiece parses the file without doubting the offsets inside it, so everything that it would follow
blindly is checked here first.
"""

import hashlib
import os
import pathlib
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

MAX_BYTES = 32 * 2**20
MAX_PIECES = 1_000_000

_UNIGRAM = sentencepiece_model_pb2.TrainerSpec.UNIGRAM
_BPE = sentencepiece_model_pb2.TrainerSpec.BPE
_NORMAL = sentencepiece_model_pb2.ModelProto.SentencePiece.NORMAL
_UNKNOWN = sentencepiece_model_pb2.ModelProto.SentencePiece.UNKNOWN
_CONTROL = sentencepiece_model_pb2.ModelProto.SentencePiece.CONTROL


class TokenizerError(ValueError):
    """A tokenizer, its files or its training data that cannot be used, and why."""


def read_model_file(path: str | os.PathLike) -> bytes:
    """The checked bytes of the SentencePiece model at `path`."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise TokenizerError(f"Expected a SentencePiece model. Received: {path}, which is not a file. Check the path.")
    if path.stat().st_size > MAX_BYTES:
        raise TokenizerError(
            f"{path}: expected a SentencePiece model of at most {MAX_BYTES:,} bytes. Received: "
            f"{path.stat().st_size:,} bytes. Check the path."
        )
    data = path.read_bytes()
    check_model(data, str(path))
    return data


def check_model(data: bytes, name: str) -> None:
    """Raise TokenizerError, naming `name`, unless `data` is a sane SentencePiece model with `</s>` and `<unk>`."""
    try:
        model = sentencepiece_model_pb2.ModelProto.FromString(data)
    except DecodeError as error:
        raise _bad(name, f"a file that does not parse ({error})") from None
    if model.trainer_spec.model_type not in (_UNIGRAM, _BPE):
        raise _bad(name, "a model that is neither BPE nor unigram")
    _check_pieces(model, name)
    for spec in (model.normalizer_spec, model.denormalizer_spec):
        if spec.precompiled_charsmap:
            _check_charsmap(spec.precompiled_charsmap, name)


def sha256_of(*parts: bytes) -> str:
    """The hash that identifies a model (and its table of ids, if it has one) everywhere downstream."""
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _check_pieces(model: Any, name: str) -> None:
    pieces = model.pieces
    if not 3 <= len(pieces) <= MAX_PIECES:
        raise _bad(name, f"{len(pieces):,} pieces instead of 3 to {MAX_PIECES:,}")
    texts = [piece.piece for piece in pieces]
    if not all(texts) or len(set(texts)) != len(texts):
        raise _bad(name, "empty or repeated pieces")
    if not np.isfinite([piece.score for piece in pieces]).all():
        raise _bad(name, "a piece whose score is not finite")
    if sum(piece.type == _UNKNOWN for piece in pieces) != 1:
        raise _bad(name, "no piece or several pieces of type UNKNOWN")
    if not any(piece.type == _NORMAL for piece in pieces):
        raise _bad(name, "no normal pieces, only special ones")
    end = model.trainer_spec.eos_piece
    if not any(piece.type == _CONTROL and piece.piece == end for piece in pieces):
        raise _bad(name, f"no control piece {end!r} to end a sentence with")


def _check_charsmap(charsmap: bytes, name: str) -> None:
    """Check that no offset of the normalizer's double-array trie leads outside of it.

    Layout: the trie's size in bytes (uint32), the trie (uint32 units), then NUL-terminated replacements.
    A unit with its top bit set is an offset into the replacements; any other leads to a block of 256 units.
    """
    size = int.from_bytes(charsmap[:4], "little")
    texts = charsmap[4 + size :]
    if len(charsmap) < 4 or size % 1024 or not size or not texts or texts[-1]:
        raise _bad(name, "a damaged normalization table")
    units = np.frombuffer(charsmap, "<u4", size // 4, 4).astype(np.int64)
    is_value = units >> 31 == 1
    blocks = (np.arange(len(units)) ^ ((units >> 10) << ((units & 0x200) >> 6))) | 0xFF
    inside = np.where(is_value, (units & 0x7FFFFFFF) < len(texts), blocks < len(units))
    if not inside.all():
        raise _bad(name, "a normalization table that points outside of itself")


def _bad(name: str, what: str) -> TokenizerError:
    return TokenizerError(f"{name}: expected a SentencePiece model. Received: {what}. Get the file again.")
