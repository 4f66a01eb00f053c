"""Vocabularies of the multilingual families: SentencePiece pieces in fairseq's order, and a row per language.

sentencepiece.bpe.model            the pieces
vocab.json                         of M2M-100 alone: the row of each piece
tokenizer_config.json              the kind of tokenizer, and in newer folders the rows of added tokens
added_tokens.json, tokenizer.json  these rows in older folders
special_tokens_map.json            the language tokens in the order of their rows, where nothing else has them

fairseq puts four special tokens first, so that piece 3 of a SentencePiece model has row 4, and the languages last.
"""

import pathlib
import re
from typing import Any, NamedTuple

from sentencepiece import sentencepiece_model_pb2

from tf_transformer.importing._external_model import ImportedModelError, Vocabulary, vocabulary
from tf_transformer.importing._pieces import piece_names
from tf_transformer.importing._settings import language_code, read_json, show
from tf_transformer.text import Languages

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_Piece = sentencepiece_model_pb2.ModelProto.SentencePiece
# Languages of M2M-100's and WMT21's tokenizers: their folders do not list them.
_M2M100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
_M2M_LANGUAGES = {"m2m100": _M2M100.split(), "wmt21": ["en", "ha", "is", "ja", "cs", "ru", "zh", "de"]}


class Kind(NamedTuple):
    """A kind of tokenizer: its name, what its language tokens look like, and the code in such a token."""

    name: str
    token: re.Pattern

    def code(self, token: str) -> str | None:
        match = self.token.fullmatch(token)
        return None if match is None else match[1]


KINDS = {
    "M2M100Tokenizer": Kind("M2M-100", re.compile("__([a-z]{2,3})__")),
    "NllbTokenizer": Kind("NLLB-200", re.compile("([a-z]{3}_[A-Z][a-z]{3})")),
    "MBart50Tokenizer": Kind("mBART-50", re.compile("([a-z]{2}_[A-Z]{2})")),
}


class TokenizerFiles:
    """The tokenizer's files of a folder of one of the multilingual families.

    Attributes:
        kind: of the tokenizer.
        settings: of tokenizer_config.json; empty if there is none.
    """

    def __init__(self, directory: pathlib.Path, model_type: str):
        self._directory = directory
        file = directory / "tokenizer_config.json"
        self.settings: dict = read_json(file) if file.is_file() else {}
        usual = "MBart50Tokenizer" if model_type == "mbart" else "NllbTokenizer"
        usual = "M2M100Tokenizer" if (directory / "vocab.json").is_file() else usual
        name = str(self.settings.get("tokenizer_class") or usual).removesuffix("Fast")
        if name not in KINDS:
            raise ImportedModelError(
                f"{file}: expected one of {', '.join(KINDS)} as tokenizer_class. Received: {show(name)}. Models with "
                "other tokenizers cannot be imported."
            )
        self.kind = KINDS[name]

    def vocabulary(self, pieces: bytes, size: int, special: dict[str, int]) -> tuple[Vocabulary, Languages]:
        """The tokens of the embedding's rows, and the languages with their rows.

        Args:
            pieces: the SentencePiece model, checked.
            size: rows of the embedding.
            special: rows of "eos", "pad" and "start".
        """
        tokens = self._m2m_tokens(size) if self.kind.name == "M2M-100" else self._shifted_tokens(pieces)
        rows = self._language_rows(len(tokens))
        first, last = min(rows.values()), max(rows.values())
        if last >= size or first < len(tokens) or len(set(rows.values())) != len(rows):
            raise ImportedModelError(
                f"{self._directory}: expected each language with a row of its own, {len(tokens):,} to {size - 1:,}. "
                f"Received: rows {first:,} to {last:,}. Get tokenizer and weights of the same model."
            )
        named = {row: token for token, row in rows.items()}
        tokens += [named.get(row, f"<row {row}>") for row in range(len(tokens), last + 1)]
        found = vocabulary(tokens, str(self._directory))
        codes = {str(self.kind.code(token)): row for token, row in rows.items()}
        legacy = self.settings.get("legacy_behaviour") is True and self.kind.name == "NLLB-200"
        languages = Languages(codes, place="end" if legacy else "start")
        return Vocabulary(found.tokens, special["eos"], found.unk, special["pad"], special["start"]), languages

    def language_pair(self, languages: Languages, forced: object) -> tuple[str | None, str | None]:
        """The languages that the folder states: those of its tokenizer, or of the first token that it forces."""
        source, target = (language_code(self.settings.get(name)) for name in ("src_lang", "tgt_lang"))
        codes = {row: code for code, row in languages.tokens.items()}
        if target is None and type(forced) is int:
            target = codes.get(forced)
        return (source if source in languages.tokens else None, target if target in languages.tokens else None)

    def _shifted_tokens(self, pieces: bytes) -> list[str]:
        """fairseq's special tokens, then all pieces but SentencePiece's own special ones."""
        names = piece_names(pieces, str(self._directory))
        if names[:3] != ["<unk>", "<s>", "</s>"]:
            raise ImportedModelError(
                f"{self._directory}: expected a SentencePiece model that begins with <unk>, <s> and </s>. Received: "
                f"{show(names[:3])}."
            )
        return [*SPECIAL, *names[3:]]

    def _m2m_tokens(self, size: int) -> list[str]:
        file = self._directory / "vocab.json"
        rows = read_json(file)
        numbered = all(type(row) is int for row in rows.values()) and sorted(rows.values()) == list(range(len(rows)))
        if not numbered or not len(SPECIAL) < len(rows) < size or any(token not in rows for token in SPECIAL):
            raise ImportedModelError(
                f"{file}: expected the rows 0, 1, 2 … of at most {size - 1:,} tokens, {', '.join(SPECIAL)} among them. "
                f"Received: {len(rows):,} entries that are not. Get the file again."
            )
        return sorted(rows, key=rows.__getitem__)

    def _language_rows(self, first: int) -> dict[str, int]:
        """The row of each language token. `first`: the first row that no piece has."""
        if self.kind.name == "M2M-100":
            codes = self.settings.get("language_codes") or "m2m100"
            if not isinstance(codes, str) or codes not in _M2M_LANGUAGES:
                raise ImportedModelError(
                    f"{self._directory / 'tokenizer_config.json'}: expected one of {', '.join(_M2M_LANGUAGES)} as "
                    f"language_codes. Received: {show(codes)}."
                )
            return {f"__{code}__": first + place for place, code in enumerate(_M2M_LANGUAGES[codes])}
        rows = {token: row for token, row in self._added().items() if self.kind.code(token)}
        if not rows:
            listed = [token for token in self._listed() if self.kind.code(token)]
            rows = {token: first + place for place, token in enumerate(dict.fromkeys(listed))}
        if not rows:
            raise ImportedModelError(
                f"{self._directory}: expected a file with the languages of {self.kind.name}. Received: none. Get "
                "tokenizer_config.json and special_tokens_map.json, or tokenizer.json, of the model."
            )
        return rows

    def _added(self) -> dict[str, int]:
        """The rows of added tokens, of the first file that has them."""
        found: dict[str | None, Any]
        decoder = self.settings.get("added_tokens_decoder")
        if isinstance(decoder, dict) and decoder:
            found = {_content(token): int(row) for row, token in decoder.items() if re.fullmatch("[0-9]{1,9}", row)}
        elif (self._directory / "added_tokens.json").is_file():
            found = read_json(self._directory / "added_tokens.json")
        elif (self._directory / "tokenizer.json").is_file():
            tokens = read_json(self._directory / "tokenizer.json").get("added_tokens")
            entries = [token for token in tokens if isinstance(token, dict)] if isinstance(tokens, list) else []
            found = {_content(token): token.get("id") for token in entries}
        else:
            return {}
        return {token: row for token, row in found.items() if token is not None and type(row) is int and row >= 0}

    def _listed(self) -> list[str]:
        """Additional special tokens in the order of their rows."""
        file = self._directory / "special_tokens_map.json"
        for values in (read_json(file) if file.is_file() else {}, self.settings):
            tokens = values.get("additional_special_tokens")
            if isinstance(tokens, list) and tokens:
                return [content for token in tokens if (content := _content(token)) is not None]
        return []


def _content(token: object) -> str | None:
    """The text of a token that is written as text or as an object."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None
