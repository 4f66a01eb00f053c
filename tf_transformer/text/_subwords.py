"""Subwords: one SentencePiece model in Python, without TensorFlow, as the workers of `prepare` use it."""

import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Iterable, Sequence

import numpy as np
import sentencepiece

from tf_transformer.text._model_file import MAX_BYTES, TokenizerError, check_model, sha256_of


@dataclasses.dataclass(frozen=True)
class IdMap:
    """Table from SentencePiece ids to the model's ids, with the model's special ids.

    Args:
        ids: the model id of SentencePiece id 0, 1, 2 … Pieces that the Transformer lacks have `unk_id`.
        vocab_size: the Transformer's V; all ids are below it.
        pad_id, unk_id, bos_id, eos_id: its special ids. `bos_id` may equal `pad_id`, as in OPUS-MT.
        add_eos: whether `eos_id` is put behind a text. OpenNMT-py's models read sources without it.
    """

    ids: tuple[int, ...]
    vocab_size: int
    pad_id: int
    unk_id: int
    bos_id: int
    eos_id: int
    add_eos: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(int(i) for i in self.ids))
        special = (self.pad_id, self.unk_id, self.bos_id, self.eos_id)
        if not self.ids or not all(0 <= i < self.vocab_size for i in (*self.ids, *special)):
            raise TokenizerError(
                f"Expected ids from 0 to vocab_size - 1 = {self.vocab_size - 1}. Received: ids from "
                f"{min((*self.ids, *special))} to {max((*self.ids, *special))}."
            )
        if self.eos_id in (self.pad_id, self.bos_id, self.unk_id):
            raise TokenizerError(f"Expected an eos_id that differs from the other special ids. Received: {special}.")

    def to_model(self) -> np.ndarray:
        """The table [SentencePiece vocabulary] int32 of model ids."""
        return np.asarray(self.ids, np.int32)

    def to_pieces(self, unknown_piece: int) -> np.ndarray:
        """The table back, [V] int32: model ids that no piece has become `unknown_piece`.

        Where several pieces share a model id (only the unknown one is meant to), the unknown piece wins.
        """
        table = np.full(self.vocab_size, unknown_piece, np.int32)
        table[list(self.ids)] = np.arange(len(self.ids))
        table[self.unk_id] = unknown_piece
        return table

    def to_json(self) -> str:
        fields = dataclasses.asdict(self)
        if self.add_eos:
            del fields["add_eos"]  # the rule, and the hashes of tables from before the field existed
        return json.dumps(fields, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_file(cls, path: str | pathlib.Path) -> "IdMap":
        """Read a file in the form of `to_json`; TokenizerError names a file that is not."""
        path = pathlib.Path(path)
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError(f"more than {MAX_BYTES:,} bytes")
            fields = json.loads(path.read_bytes())
            if not isinstance(fields, dict) or not isinstance(fields.get("ids"), list):
                raise ValueError("no list named 'ids'")
            add_eos = fields.pop("add_eos", True)
            if type(add_eos) is not bool:
                raise ValueError("an add_eos that is neither true nor false")
            if not all(type(i) is int for i in (*fields["ids"], *(v for k, v in fields.items() if k != "ids"))):
                raise ValueError("values that are not whole numbers")
            return cls(**fields, add_eos=add_eos)
        except (ValueError, TypeError) as error:
            raise TokenizerError(f"{path}: expected a table of ids. Received: {error}. Write the file again.") from None


PAD_ID, UNK_ID, BOS_ID, EOS_ID = 0, 1, 2, 3

# What `tf.strings.strip` takes away, so that Python and the graph agree.
_SPACE = " \t\n\v\f\r"


def to_valid_text(text: str | bytes) -> str:
    """`text` with each bad byte sequence, or lone surrogate, replaced by U+FFFD as the graph does it."""
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    return text.decode("utf-8", "replace")


class Subwords:
    """Text to ids and back by one SentencePiece model. Ids are model ids: see `IdMap`.

    Args:
        model: the bytes of the SentencePiece model; they are checked.
        id_map: the table to the Transformer's ids, for models trained elsewhere.
        name: what error messages call the model: its file.
    """

    def __init__(self, model: bytes, id_map: IdMap | None = None, name: str = "the SentencePiece model") -> None:
        check_model(model, name)
        self.model = model
        self.id_map = id_map
        self._processor = _load(model, name)
        self._pieces = self._processor.get_piece_size()
        self.unknown_piece = self._processor.unk_id()
        self.add_eos = id_map is None or id_map.add_eos
        if id_map is None:
            self._check_special_ids(name)
            self.vocab_size = self._pieces
            self.pad_id, self.unk_id, self.bos_id, self.eos_id = PAD_ID, UNK_ID, BOS_ID, EOS_ID
            self.sha256 = sha256_of(model)
        else:
            self._check_map(id_map, name)
            self.vocab_size = id_map.vocab_size
            self.pad_id, self.unk_id = id_map.pad_id, id_map.unk_id
            self.bos_id, self.eos_id = id_map.bos_id, id_map.eos_id
            self.sha256 = sha256_of(model, id_map.to_json().encode())
            self._to_model, self._to_piece = id_map.ids, id_map.to_pieces(self.unknown_piece).tolist()

    def encode(self, text: str | bytes) -> list[int]:
        """The ids of `text`, ending in `eos_id` (if `add_eos`). Control symbols such as `</s>` are plain text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Iterable[str | bytes]) -> list[list[int]]:
        """The ids of each text, as `encode` gives them, on one thread."""
        valid = [to_valid_text(text) for text in texts]
        rows = self._processor.encode(valid, add_eos=self.add_eos, num_threads=1)
        if self.id_map is None:
            return rows
        return [[self._to_model[i] for i in row] for row in rows]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids` up to the first `eos_id` or `pad_id`; ids that there are not count as unknown."""
        pieces = []
        for i in map(int, ids):
            if i in (self.eos_id, self.pad_id):
                break
            if i != self.bos_id:
                pieces.append(self._piece_of(i))
        return to_valid_text(self._processor.decode(pieces)).strip(_SPACE)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The piece of each id, control symbols included: for display, not to be joined."""
        special = {self.eos_id: "</s>", self.pad_id: "<pad>", self.bos_id: "<s>"}
        return [special.get(int(i)) or self._processor.id_to_piece(self._piece_of(int(i))) for i in ids]

    def id_of(self, piece: str) -> int:
        """The id of a piece; UNK if there is no such piece."""
        i = self._processor.piece_to_id(piece)
        return i if self.id_map is None else self._to_model[i]

    def surface_sizes(self) -> tuple[np.ndarray, np.ndarray]:
        """Per SentencePiece id: bytes it adds to a text, and how many of them are leading spaces; int32 tables."""
        surfaces = [self._surface(i) for i in range(self._pieces)]
        sizes = [len(surface.encode()) for surface in surfaces], [len(s) - len(s.lstrip(" ")) for s in surfaces]
        return np.asarray(sizes[0], np.int32), np.asarray(sizes[1], np.int32)

    def _surface(self, piece: int) -> str:
        p = self._processor
        if p.is_unknown(piece):
            return p.decode([piece])
        if p.is_byte(piece):
            return "?"  # any one byte
        return "" if p.is_control(piece) else p.id_to_piece(piece).replace("▁", " ")

    def texts(self) -> list[str]:
        """Per id, what its piece adds to a text: a space for "▁", nothing for control symbols; UNK is "⁇"."""
        p = self._processor
        texts = ["" if p.is_control(i) else p.id_to_piece(i).replace("▁", " ") for i in range(self._pieces)]
        texts[self.unknown_piece] = "⁇"
        special = (self.eos_id, self.pad_id, self.bos_id)
        return ["" if i in special else texts[self._piece_of(i)] for i in range(self.vocab_size)]

    @functools.cached_property
    def byte_fallback(self) -> bool:
        """Whether each of the 256 bytes has a piece with an id: no text is unknown then."""
        found = [i for i in range(self._pieces) if self._processor.is_byte(i)]
        return len(found) == 256 and (self.id_map is None or all(self._to_model[i] != self.unk_id for i in found))

    def _piece_of(self, i: int) -> int:
        if not 0 <= i < self.vocab_size:
            return self.unknown_piece
        return i if self.id_map is None else self._to_piece[i]

    def _check_special_ids(self, name: str) -> None:
        p = self._processor
        ids = (p.pad_id(), p.unk_id(), p.bos_id(), p.eos_id())
        if ids != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
            raise TokenizerError(
                f"{name}: expected the ids 0, 1, 2, 3 for PAD, UNK, BOS and EOS. Received: {ids} (-1: none). "
                "Train it with train_tokenizer, or pass an IdMap."
            )

    def _check_map(self, id_map: IdMap, name: str) -> None:
        if len(id_map.ids) != self._pieces:
            raise TokenizerError(
                f"{name}: expected a table of {self._pieces} ids, one per piece. Received: {len(id_map.ids)} ids. Use "
                "the table of this model."
            )
        if id_map.ids[self._processor.eos_id()] != id_map.eos_id:
            raise TokenizerError(
                f"{name}: expected a table of ids that maps the piece </s> to eos_id {id_map.eos_id}. Received: "
                f"{id_map.ids[self._processor.eos_id()]}."
            )

    def __reduce__(self) -> tuple:
        return (Subwords, (self.model, self.id_map))


def _load(model: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        reason = re.sub(r"^\w+: \S+\(\d+\) ", "", str(error)).strip()
        raise TokenizerError(f"{name}: expected a SentencePiece model. Received: {reason}") from None
