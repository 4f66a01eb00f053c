"""Vocabulary trimming: an external model without the rows that the kept text does not need.

A piece stays if words of the kept text can be spelled with it, since a model may write a word with other pieces than
its tokenizer reads. All pieces of one character stay, so that other text falls back to smaller pieces. The kept text is
split as before. With a unigram model its best segmentation stays among fewer ones, and the
least probable piece stays, from which SentencePiece computes the cost of unknown characters. With BPE the substrings of
a needed piece stay, too: merges lead through them. Special, added and language tokens always stay.
"""

import dataclasses
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from tf_transformer.importing._external_model import ExternalModel, ImportedModelError, Vocabulary
from tf_transformer.importing._pieces import target_pieces, with_language_tokens, with_unknown_characters
from tf_transformer.importing._scripts import scripts_in, scripts_of
from tf_transformer.text import Languages, chunks, read_lines

_Piece = sentencepiece_model_pb2.ModelProto.SentencePiece
_BPE = sentencepiece_model_pb2.TrainerSpec.BPE
_SPACE = "▁"
# What readers call a row of a table that has no token.
_UNNAMED = re.compile(r"<row \d+>")
_WORD = re.compile(f"{_SPACE}?[^{_SPACE}]+")
_LINES_CHECKED = 20_000
_BATCH_LINES, _BATCH_BYTES = 1000, 1 << 20


@dataclasses.dataclass(frozen=True)
class Trimming:
    """Parts of a vocabulary to keep.

    Attributes:
        languages: codes; the pieces of their scripts stay.
        files: text files; the pieces of their lines stay.
    """

    languages: tuple[str, ...] = ()
    files: tuple[str | os.PathLike, ...] = ()

    def facts(self) -> dict:
        """For import.json."""
        return {"languages": list(self.languages), "files": [pathlib.Path(file).name for file in self.files]}


def trim(external: ExternalModel, trimming: Trimming) -> ExternalModel:
    """The model without the rows that are not kept; what it computes with the others is the same."""
    target_model = external.target_pieces or target_pieces(external.source_pieces, external.target)
    controls = _language_tokens(external)
    sides = [_Side(external.source_pieces, external.source, controls), _Side(target_model, external.target, controls)]
    wanted = {name for language in trimming.languages for name in scripts_of(language)}
    for side in sides:
        if wanted:
            side.keep(piece for piece in side.names if scripts_in(piece) <= wanted)
        side.keep_text(_lines(trimming.files))
        side.close()
    if external.source is external.target:
        # One table: a row stays for both sides, and each side has a piece for it as before.
        for side, other in (sides, sides[::-1]):
            side.keep(other.kept)
            side.close()
        rows = [_rows(external.source, sides)] * 2
    else:
        rows = [_rows(side.vocabulary, [side]) for side in sides]
    trimmed = _with_rows(external, rows)
    trimmed = dataclasses.replace(trimmed, source_pieces=sides[0].trimmed(), target_pieces=sides[1].trimmed())
    for side, model in zip(sides, (trimmed.source_pieces, trimmed.target_pieces)):
        side.check(model or b"", _lines(trimming.files))
    return trimmed


class _Side:
    """Source or target: its SentencePiece model as the tokenizer has it, and the pieces that stay.

    Args:
        controls: tokens that no text contains, which are no pieces.
    """

    def __init__(self, model: bytes, vocabulary: Vocabulary, controls: Collection[str] = ()) -> None:
        read = dataclasses.replace(vocabulary, tokens=tuple(t for t in vocabulary.tokens if t not in controls))
        model = with_language_tokens(with_unknown_characters(model, read), read)
        self._proto = sentencepiece_model_pb2.ModelProto.FromString(model)
        self.vocabulary = vocabulary
        self._processor = _processor(model)
        normal = [piece for piece in self._proto.pieces if piece.type == _Piece.NORMAL]
        self.names = {piece.piece for piece in normal}
        self.kept = {piece for piece in self.names if len(piece) == 1}
        if normal:
            self.kept.add(min(normal, key=lambda piece: piece.score).piece)
        self._closed: set[str] = set()
        self._longest = max(map(len, self.names), default=0)

    def keep(self, pieces: Iterable[str]) -> None:
        self.kept |= self.names.intersection(pieces)

    def keep_text(self, lines: Iterator[list[str]]) -> None:
        """Keep the pieces of the lines, which come in batches, and all other pieces that can spell their words."""
        words: set[str] = set()
        for batch in lines:
            for pieces in _pieces(self._processor, batch):
                self.keep(pieces)
                words.update(_WORD.findall("".join(pieces)))
        for word in words:
            self.keep(_substrings(word, self._longest))

    def close(self) -> None:
        """Keep the substrings of kept pieces where the model merges them."""
        if self._proto.trainer_spec.model_type != _BPE:
            return
        for piece in self.kept - self._closed:
            self.keep(_substrings(piece, self._longest))
        self._closed = set(self.kept)

    def trimmed(self) -> bytes:
        """The SentencePiece model with the kept pieces, and all that are no normal ones."""
        made = sentencepiece_model_pb2.ModelProto()
        made.CopyFrom(self._proto)
        del made.pieces[:]
        made.pieces.extend(
            piece for piece in self._proto.pieces if piece.type != _Piece.NORMAL or piece.piece in self.kept
        )
        made.trainer_spec.vocab_size = len(made.pieces)
        return made.SerializeToString()

    def check(self, model: bytes, lines: Iterator[list[str]]) -> None:
        """Raise ImportedModelError if a kept line is split in another way than before."""
        other, checked = _processor(model), 0
        for batch in lines:
            for text, before, after in zip(batch, _pieces(self._processor, batch), _pieces(other, batch)):
                if before != after:
                    raise ImportedModelError(
                        f"expected kept text to be split as before. Received: {text[:80]!r}, which a trimmed "
                        "vocabulary would split in another way. Import the model without trimming."
                    )
            checked += len(batch)
            if checked >= _LINES_CHECKED:
                return


def _language_tokens(external: ExternalModel) -> set[str]:
    """The tokens of the languages of a multilingual model."""
    languages = external.multilingual
    return set() if languages is None else {external.target.tokens[row] for row in languages.tokens.values()}


def _rows(known: Vocabulary, sides: Sequence[_Side]) -> np.ndarray:
    """The rows of a vocabulary that stay: those of kept pieces, and of tokens that are no normal pieces."""
    special = {known.eos, known.unk, known.pad, known.decoder_start}
    kept, names = (set().union(*(getattr(side, field) for side in sides)) for field in ("kept", "names"))
    stays = (
        row in special or token in kept or (token not in names and not _UNNAMED.fullmatch(token))
        for row, token in enumerate(known.tokens)
    )
    return np.flatnonzero(np.fromiter(stays, bool, len(known.tokens)))


def _substrings(text: str, longest: int) -> Iterator[str]:
    size = len(text)
    return (text[start:end] for start in range(size) for end in range(start + 1, min(start + longest, size) + 1))


def _pieces(processor: sentencepiece.SentencePieceProcessor, batch: list[str]) -> list[list[str]]:
    return processor.encode(batch, out_type=str)


def _processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def _with_rows(external: ExternalModel, rows: Sequence[np.ndarray]) -> ExternalModel:
    """The model with some rows of its tables; what was one table stays one."""
    done: dict[tuple[int, int], np.ndarray] = {}

    def taken(table: np.ndarray, side: int) -> np.ndarray:
        key = (id(table), id(rows[side]))
        if key not in done:
            done[key] = table[rows[side]]
        return done[key]

    source = _vocabulary(external.source, rows[0])
    shared = external.source is external.target
    return dataclasses.replace(
        external,
        source_table=taken(external.source_table, 0),
        target_table=taken(external.target_table, 1),
        output_table=taken(external.output_table, 1),
        output_bias=None if external.output_bias is None else taken(external.output_bias, 1),
        source=source,
        target=source if shared else _vocabulary(external.target, rows[1]),
        multilingual=_languages(external.multilingual, rows[1]),
    )


def _languages(known: Languages | None, rows: np.ndarray) -> Languages | None:
    """The languages of a multilingual model, whose tokens all stay, with their new rows."""
    if known is None:
        return None
    places = {row: place for place, row in enumerate(rows.tolist())}
    return dataclasses.replace(known, tokens={code: places[row] for code, row in known.tokens.items()})


def _vocabulary(known: Vocabulary, rows: np.ndarray) -> Vocabulary:
    places = {row: place for place, row in enumerate(rows.tolist())}
    return Vocabulary(
        tuple(known.tokens[row] for row in rows),
        places[known.eos],
        *(None if row is None else places[row] for row in (known.unk, known.pad, known.decoder_start)),
    )


def _lines(files: Sequence[str | os.PathLike]) -> Iterator[list[str]]:
    """The lines of text files in batches; malformed UTF-8 is replaced."""
    for file in files:
        try:
            with open(file, "rb") as opened:
                for batch in chunks(read_lines(opened), _BATCH_LINES, _BATCH_BYTES):
                    yield [line.decode("utf-8", errors="replace") for line in batch]
        except OSError as error:
            raise ImportedModelError(
                f"--keep-pieces-of: expected text files. Received: {file}, which cannot be read: {error.strerror}."
            ) from None
