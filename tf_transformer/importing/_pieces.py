"""SentencePiece models of others, made to fit the vocabulary beside them: all of it happens in the graph later."""

import logging
import math
import os
import pathlib
import re
from collections.abc import Sequence

from sentencepiece import sentencepiece_model_pb2

from tf_transformer.importing._external_model import ImportedModelError, RowOrder, Vocabulary
from tf_transformer.importing._files_read import record_file
from tf_transformer.text import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    IdMap,
    Tokenizer,
    TokenizerError,
    check_model,
    read_model_file,
)

# OPUS-MT's models with several target languages read which one from a token before the text: ">>deu<< Hello."
_LANGUAGE = re.compile(r">>[^<>\s]+<<")
_SPACE = "▁"
# "<s>", "<unused_7>": no text.
_NAME = re.compile(r"<.+>|>>.+<<", re.DOTALL)
# By which SentencePiece's unigram model puts unknown characters below its least probable piece.
_UNKNOWN_PENALTY = 10.0
# Of the vocabulary's tokens at least this share must be pieces, or the SentencePiece model is that of the other side.
_SHARE = 0.9

_PAIRS = (("source.spm", "target.spm"), ("source.model", "target.model"))
_SINGLE = ("tokenizer.model", "sentencepiece.model", "sentencepiece.bpe.model", "spm.model")
_OTHER_KINDS = ("bpe.model", "source.bpe", "bpe.codes", "bpecodes", "codes")

_Piece = sentencepiece_model_pb2.ModelProto.SentencePiece

logger = logging.getLogger(__name__)


def tokenizer(
    model: bytes, vocabulary: Vocabulary, order: RowOrder, name: str, add_eos: bool = True, controls: Sequence[str] = ()
) -> Tokenizer:
    """The tokenizer of a SentencePiece model whose pieces have the ids of a vocabulary; unknown ones are unknown.

    Args:
        controls: tokens of the vocabulary that no text contains, such as those of languages.
    """
    check_model(model, name)
    model = with_control_tokens(model, controls)
    model = with_language_tokens(with_unknown_characters(model, vocabulary), vocabulary)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    known = order.ids(vocabulary)
    special = {proto.trainer_spec.eos_piece: EOS_ID, proto.trainer_spec.bos_piece: BOS_ID}
    special[proto.trainer_spec.pad_piece] = PAD_ID
    ids = []
    for piece in proto.pieces:
        if piece.type == _Piece.UNKNOWN:
            ids.append(UNK_ID)
        elif piece.type == _Piece.CONTROL:
            ids.append(known.get(piece.piece, special.get(piece.piece, UNK_ID)))
        elif piece.type == _Piece.USER_DEFINED:
            ids.append(known.get(piece.piece, known.get(piece.piece.removeprefix(_SPACE), UNK_ID)))
        else:
            ids.append(known.get(piece.piece, UNK_ID))
    size = len(order.rows)
    if add_eos and ids == list(range(size)):
        return Tokenizer(model, name=name)
    return Tokenizer(model, IdMap(tuple(ids), size, PAD_ID, UNK_ID, BOS_ID, EOS_ID, add_eos), name)


def with_control_tokens(model: bytes, tokens: Sequence[str]) -> bytes:
    """The model with a control piece for each token: it has an id, is written as nothing, and never read from text."""
    if not tokens:
        return model
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    there = {piece.piece for piece in proto.pieces}
    for token in tokens:
        if token in there:
            raise TokenizerError(
                f"expected a SentencePiece model without the language token {token!r}. Received: a piece of that name"
            )
        proto.pieces.add(piece=token, score=0.0, type=_Piece.CONTROL)
    return proto.SerializeToString()


def with_unknown_characters(model: bytes, vocabulary: Vocabulary) -> bytes:
    """The model with a piece for each token of characters that it does not know; unchanged where there is none.

    SentencePiece passes unknown characters on as they are, and Marian looks each string up in its vocabulary: there
    they may be known from the other language. They cost as much as the unknown piece, so no other word is split anew.
    """
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    if proto.trainer_spec.byte_fallback:
        return model
    known = {character for piece in proto.pieces if piece.type == _Piece.NORMAL for character in piece.piece}
    there = {"", *(piece.piece for piece in proto.pieces)}
    new = (token for token in vocabulary.tokens if token not in there)
    tokens = [token for token in new if known.isdisjoint(token) and not _NAME.fullmatch(token)]
    if not tokens:
        return model
    lowest = min(piece.score for piece in proto.pieces if piece.type == _Piece.NORMAL)
    for token in tokens:
        proto.pieces.add(piece=token, score=lowest - _UNKNOWN_PENALTY)
    return proto.SerializeToString()


def with_language_tokens(model: bytes, vocabulary: Vocabulary) -> bytes:
    """The model with a piece for each token such as ">>deu<<" of the vocabulary; unchanged where there is none."""
    tokens = [token for token in vocabulary.tokens if _LANGUAGE.fullmatch(token)]
    if not tokens:
        return model
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    there = {piece.piece for piece in proto.pieces}
    for token in tokens:
        # With the space that SentencePiece puts before a text, so that no piece for the space alone comes first.
        if _SPACE + token not in there:
            proto.pieces.add(piece=_SPACE + token, score=0.0, type=_Piece.USER_DEFINED)
    return proto.SerializeToString()


def target_pieces(model: bytes, vocabulary: Vocabulary) -> bytes:
    """The target's SentencePiece model where only one came: that one, or a stand-in made from the vocabulary.

    Argos' packages of OPUS-MT's models have the source's alone: it suffices to write text, for pieces are just joined.
    To read text, which scoring and training do, the stand-in takes the vocabulary's order, by frequency, for
    probabilities; its pieces are the model's, but a word may be split at other places than in training.
    """
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    special = {vocabulary.pad, vocabulary.unk, vocabulary.decoder_start, vocabulary.eos}
    tokens = [token for row, token in enumerate(vocabulary.tokens) if row not in special and token]
    pieces = {piece.piece for piece in proto.pieces}
    if sum(token in pieces for token in tokens) >= _SHARE * len(tokens):
        return model
    logger.warning(
        "There is one SentencePiece model for the source only. The target's is made from the vocabulary: translations "
        "are right; `score`, perplexity and fine-tuning may split target words differently from the model's training."
    )
    controls = [piece for piece in proto.pieces if piece.type in (_Piece.UNKNOWN, _Piece.CONTROL)]
    names = {piece.piece for piece in controls}
    made = sentencepiece_model_pb2.ModelProto(trainer_spec=proto.trainer_spec, normalizer_spec=proto.normalizer_spec)
    made.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.UNIGRAM
    made.pieces.extend(controls)
    for rank, token in enumerate(token for token in tokens if token not in names):
        made.pieces.add(piece=token, score=-math.log(rank + 2.0))
    return made.SerializeToString()


def piece_names(model: bytes, name: str) -> list[str]:
    """The pieces of a checked SentencePiece model, in the order of their ids.

    Args:
        name: of the file, for messages.
    """
    names = [piece.piece for piece in sentencepiece_model_pb2.ModelProto.FromString(model).pieces]
    if not all(isinstance(name, str) for name in names):  # protobuf gives those that are not UTF-8 as bytes
        raise ImportedModelError(
            f"{name}: expected a SentencePiece model of UTF-8 text. Received: pieces that are not UTF-8. Get the file "
            "again."
        )
    return names


def sentencepiece_files(
    directory: pathlib.Path, source: str | os.PathLike | None = None, target: str | os.PathLike | None = None
) -> tuple[bytes, bytes | None]:
    """The checked SentencePiece models of source and target; the second is None where there is one only.

    They are looked for in `directory` and in the one above it, where Argos' packages have them.

    Args:
        source, target: files to take instead of those that are found, each for itself.
    """
    found = _found_files(directory)
    source, target = source or found[0], target or found[1]
    if source is None:
        raise _no_source(directory)
    for file in (source, target):
        if file is not None:
            record_file(pathlib.Path(file))
    try:
        return read_model_file(source), None if target is None else read_model_file(target)
    except (TokenizerError, OSError) as error:
        raise ImportedModelError(str(error)) from None


def _found_files(directory: pathlib.Path) -> tuple[pathlib.Path | None, pathlib.Path | None]:
    for folder in (directory, directory.parent):
        for names in _PAIRS:
            if all((folder / name).is_file() for name in names):
                return folder / names[0], folder / names[1]
        for name in _SINGLE:
            if (folder / name).is_file():
                return folder / name, None
    return None, None


def _no_source(directory: pathlib.Path) -> ImportedModelError:
    for folder in (directory, directory.parent):
        for name in _OTHER_KINDS:
            if (folder / name).is_file():
                return ImportedModelError(
                    f"{folder}: expected a SentencePiece model. Received: {name}, BPE codes of subword-nmt. Models "
                    "with such codes cannot be imported: they have no tokenizer inside the TensorFlow graph."
                )
    return ImportedModelError(
        f"{directory}: expected source.spm and target.spm, or sentencepiece.model. Received: no SentencePiece model. "
        "Give the files with --source-tokenizer and --target-tokenizer."
    )
