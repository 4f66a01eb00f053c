"""The table between a SentencePiece model's own ids and the ids of the Transformer that reads them.

Our own tokenizers need none. Models trained elsewhere do: OPUS-MT keeps a vocabulary file beside its two
SentencePiece models, and its ids are the numbers in that file.
"""

import dataclasses
import json
import pathlib

import numpy as np

from tf_transformer.text.model_file import MAX_BYTES, TokenizerError


@dataclasses.dataclass(frozen=True)
class IdMap:
    """What each SentencePiece id is called in the Transformer, and the Transformer's special ids.

    Args:
        ids: the model id of SentencePiece id 0, 1, 2 … Pieces that the Transformer lacks have `unknown_id`.
        vocab_size: the Transformer's V; all ids are below it.
        pad_id, unknown_id, start_id, end_id: its special ids. `start_id` may equal `pad_id`, as in OPUS-MT.
        adds_end: whether `end_id` is put behind a text. OpenNMT-py's models read sources without it.
    """

    ids: tuple[int, ...]
    vocab_size: int
    pad_id: int
    unknown_id: int
    start_id: int
    end_id: int
    adds_end: bool = True

    def __post_init__(self):
        object.__setattr__(self, "ids", tuple(int(i) for i in self.ids))
        special = (self.pad_id, self.unknown_id, self.start_id, self.end_id)
        if not self.ids or not all(0 <= i < self.vocab_size for i in (*self.ids, *special)):
            raise TokenizerError(f"a table of ids needs ids from 0 to vocab_size - 1 = {self.vocab_size - 1}")
        if self.end_id in (self.pad_id, self.start_id, self.unknown_id):
            raise TokenizerError(f"end_id must differ from the other special ids, got {special}")

    def to_model(self) -> np.ndarray:
        """The table [SentencePiece vocabulary] int32 of model ids."""
        return np.asarray(self.ids, np.int32)

    def to_pieces(self, unknown_piece: int) -> np.ndarray:
        """The table back, [V] int32: model ids that no piece has become `unknown_piece`.

        Where several pieces share a model id (only the unknown one is meant to), the unknown piece wins.
        """
        table = np.full(self.vocab_size, unknown_piece, np.int32)
        table[list(self.ids)] = np.arange(len(self.ids))
        table[self.unknown_id] = unknown_piece
        return table

    def to_json(self) -> str:
        fields = dataclasses.asdict(self)
        if self.adds_end:
            del fields["adds_end"]  # the rule, and the hashes of tables from before it could be told
        return json.dumps(fields, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_file(cls, path: str | pathlib.Path) -> "IdMap":
        """Reads what `to_json` wrote; anything else is a TokenizerError that names the file."""
        path = pathlib.Path(path)
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError("it is too large")
            fields = json.loads(path.read_bytes())
            if not isinstance(fields, dict) or not isinstance(fields.get("ids"), list):
                raise ValueError("expected an object with a list named 'ids'")
            adds_end = fields.pop("adds_end", True)
            if type(adds_end) is not bool:
                raise ValueError("expected true or false for 'adds_end'")
            if not all(type(i) is int for i in (*fields["ids"], *(v for k, v in fields.items() if k != "ids"))):
                raise ValueError("expected whole numbers only")
            return cls(**fields, adds_end=adds_end)
        except (ValueError, TypeError) as error:
            raise TokenizerError(f"{path}: not a usable table of ids: {error}; get or make the file again") from None
