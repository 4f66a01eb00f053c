"""Marian's vocab.yml: one line per token with its row.

It is YAML by name only: tokens such as control characters are written as they are, which YAML's own parsers reject or
change. So it is read by lines; of YAML there are the three ways to write a key, and the long form with `?` and `:`.
"""

import json
import pathlib
import re

from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._settings import MAX_TEXT_BYTES, read_bytes

_ROW = re.compile(r" *[0-9]{1,9} *")
_HEX = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|U([0-9A-Fa-f]{8}))")
_YAML_ESCAPES = {r"\0": "\0", r"\a": "\a", r"\e": "\x1b", r"\v": "\v", r"\_": "\xa0", r"\N": "\x85"}
_YAML_ESCAPES |= {r"\L": "\u2028", r"\P": "\u2029", r"\ ": " "}
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)


def read_marian_vocabulary(file: str | pathlib.Path) -> list[str]:
    """The tokens of rows 0, 1, 2 …"""
    file = pathlib.Path(file)
    text = read_bytes(file, MAX_TEXT_BYTES).decode("utf-8", "replace")
    rows: dict[int, str] = {}
    key = None
    # Only line feeds end a line: tokens may be other characters that Python's splitlines would split at.
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if line.startswith("? "):
            key = line[2:]
            continue
        if not line.strip() or line in ("---", "...") or (key is None and line.startswith("#")):
            continue
        token, _, row = line.rpartition(":")
        if key is not None:
            token, key = key, None
        unquoted = _unquoted(token.rstrip(" "))
        if not _ROW.fullmatch(row) or int(row) in rows or unquoted is None:
            raise ImportedModelError(
                f"{file}, line {number}: expected `token: row` with a row of its own. Received: {line[:80]!r}."
            )
        rows[int(row)] = unquoted
    if not rows or max(rows) >= 2 * len(rows):
        raise ImportedModelError(
            f"{file}: expected a vocabulary. Received: {len(rows)} tokens with rows up to {max(rows, default=0)}. Get "
            "the file again."
        )
    return [rows.get(row, f"<row {row}>") for row in range(max(rows) + 1)]


def _unquoted(token: str) -> str | None:
    """The token of a key; None where it has escapes of half a character (lone surrogates)."""
    if len(token) >= 2 and token[0] == token[-1] == '"':
        text = _ESCAPE.sub(_unescaped, token[1:-1])
        try:
            # Two escapes may be the two halves of one character.
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            return None
    if len(token) >= 2 and token[0] == token[-1] == "'":
        return token[1:-1].replace("''", "'")
    return token


def _unescaped(match: re.Match) -> str:
    text = match[0]
    if text in _YAML_ESCAPES:
        return _YAML_ESCAPES[text]
    if found := _HEX.fullmatch(text):
        code = int(found[1] or found[2], 16)
        return chr(code) if code < 0x110000 else "\ufffd"
    try:
        return json.loads(f'"{text}"')
    except ValueError:
        return text[1:]
