"""Marian's own files, as OPUS-MT releases them: weights, options, vocabulary.

It is YAML by name only: tokens such as control characters are written as they are, which YAML's own parsers reject or
change. So it is read by lines; of YAML there are the three ways to write a key, and the long form with `?` and `:`.

*.npz                     the weights, and the options in the array special:model.yml
*.vocab.yml, vocab.yml    token: row; two of them where the vocabularies are separate
source.spm, target.spm    SentencePiece
decoder.yml               which of the files belong together
"""

import json
import pathlib
import re

from tf_transformer.importing._archive import read_npz
from tf_transformer.importing._assembly import position_fields
from tf_transformer.importing._external_model import ExternalModel, ImportedModelError, vocabulary
from tf_transformer.importing._layer_weights import gelu_sigmoid_as_swish, layer_tensors
from tf_transformer.importing._pieces import sentencepiece_files
from tf_transformer.importing._settings import MAX_TEXT_BYTES, MAX_YAML_BYTES, first_lines, parse_yaml, read_bytes, show
from tf_transformer.importing.marian._layers import MarianLayers
from tf_transformer.importing.marian._options import MarianOptions

_ROW = re.compile(r"\s*[0-9]{1,9}\s*")
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
        token = _unquoted(token.rstrip(" "))
        if not _ROW.fullmatch(row) or int(row) in rows or token is None:
            raise ImportedModelError(
                f"{file}, line {number}: expected `token: row` with a row of its own, got {line[:80]!r}."
            )
        rows[int(row)] = token
    if not rows or max(rows) >= 2 * len(rows):
        raise ImportedModelError(
            f"{file}: {len(rows)} tokens with rows up to {max(rows, default=0)} are no vocabulary."
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


OPTIONS = "special:model.yml"


def read_marian(
    directory: pathlib.Path, file: pathlib.Path | None = None, source_file=None, target_file=None
) -> ExternalModel:
    """The model of an OPUS-MT folder.

    Args:
        file: the `.npz`, where the folder has several.
    """
    decoder = _decoder_options(directory)
    file = file or _weights_file(directory, decoder)
    arrays = read_npz(file)
    options = MarianOptions.of(arrays.pop(OPTIONS, None), file)
    layers = MarianLayers(arrays, file)
    tensors, biased = layer_tensors(layers, options.depths, pre_norm=False)
    if options.gelu:
        gelu_sigmoid_as_swish(tensors)
    source_table = layers.table("encoder_Wemb", "Wemb")
    target_table = layers.table("decoder_Wemb", "Wemb")
    output_table, bias = layers.output(target_table)
    positions = {"positions": "t2t"}
    if (table := layers.optional("Wpos")) is not None:
        positions = position_fields(table, table, tensors, source_table.shape[1])
    layers.check_all_read()
    files = _vocabulary_files(directory, decoder)
    vocabularies = [vocabulary(read_marian_vocabulary(each), str(each)) for each in dict.fromkeys(files)]
    pieces = sentencepiece_files(directory, source_file, target_file)
    return ExternalModel(
        format="Marian",
        architecture=options.architecture(source_table.shape[1]) | positions | {"attention_bias": biased},
        layers=tensors,
        source_table=source_table,
        target_table=target_table,
        output_table=output_table,
        output_bias=bias,
        source=vocabularies[0],
        target=vocabularies[-1],
        source_pieces=pieces[0],
        target_pieces=pieces[1],
        licence=_licence(directory),
    )


def _decoder_options(directory: pathlib.Path) -> dict:
    file = directory / "decoder.yml"
    if not file.is_file():
        return {}
    return parse_yaml(read_bytes(file, MAX_YAML_BYTES), str(file))


def _named_files(decoder: dict, option: str, directory: pathlib.Path) -> list[pathlib.Path]:
    """The files that an option of decoder.yml names, taken from `directory` itself."""
    names = decoder.get(option) or []
    if not isinstance(names, list) or not all(isinstance(name, str) and pathlib.Path(name).name for name in names):
        raise ImportedModelError(
            f"{directory / 'decoder.yml'}: expected a list of file names under {option}. Received: {show(names)}."
        )
    return [directory / pathlib.Path(name).name for name in names]


def _weights_file(directory: pathlib.Path, decoder: dict) -> pathlib.Path:
    found = _named_files(decoder, "models", directory) or sorted(directory.glob("*.npz"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found[:8])
        raise ImportedModelError(f"{directory}: expected one .npz, found {names}; give that file with --from.")
    if not found[0].is_file():
        raise ImportedModelError(f"{directory} has no {found[0].name}, which decoder.yml names.")
    return found[0]


def _vocabulary_files(directory: pathlib.Path, decoder: dict) -> list[pathlib.Path]:
    """The files of source and target."""
    named = _named_files(decoder, "vocabs", directory)
    found = named or sorted({*directory.glob("*vocab.yml"), *directory.glob("*vocab*.yml")})
    # Two that are found say by nothing which is the source's.
    if len(found) not in ((1, 2) if named else (1,)) or not all(file.is_file() for file in found):
        names = ", ".join(file.name for file in found[:8]) or "none"
        raise ImportedModelError(
            f"{directory}: expected one vocab.yml, or decoder.yml with the two under `vocabs`; found {names}."
        )
    return [found[0], found[-1]]


def _licence(directory: pathlib.Path) -> str | None:
    """OPUS-MT's archives have a LICENSE, whose first line names it."""
    return next((line.strip()[:300] for line in first_lines(directory / "LICENSE") if line.strip()), None)
