"""Marian's own files, as OPUS-MT releases them: weights, options, vocabulary.

It is YAML by name only: tokens such as control characters are written as they are, which YAML's own parsers reject or
change. So it is read by lines; of YAML there are the three ways to write a key, and the long form with `?` and `:`.

*.npz                     the weights, and the options in the array special:model.yml
*.vocab.yml, vocab.yml    token: row; two of them where the vocabularies are separate
source.spm, target.spm    SentencePiece
decoder.yml               which of the files belong together
"""

import dataclasses
import json
import pathlib
import re
import zipfile
import zlib

import numpy as np
import yaml

from tf_transformer.importing._assembly import position_fields
from tf_transformer.importing._external_model import MAX_LAYERS, ExternalModel, ImportedModelError, vocabulary
from tf_transformer.importing._files import MAX_BYTES, sentencepiece_files
from tf_transformer.importing._layer_weights import gelu_sigmoid_as_swish, layer_tensors
from tf_transformer.importing.marian._layers import MarianLayers

# In Marian's source, layers of type transformer.
_EPSILON = 1e-6
# What each option must be for the Transformer that we have. Not a pre-norm: Marian's normalises the queries alone.
_REQUIRED = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-preprocess": ("",),
    "transformer-postprocess": ("dan",),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("",),
    "transformer-ffn-activation": ("swish", "relu", "gelu"),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-no-projection": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "transformer-rnn-projection": (False,),
    "transformer-disable-position-embeddings": (False,),
    "transformer-tied-layers": ([],),
    "transformer-pool": (False,),
    "lemma-dim-emb": (0,),
    "input-types": ([],),
    "ulr": (False,),
}
# A model that does not say what it is has another default in each version of Marian.
_MUST_BE_SAID = ("type",)


@dataclasses.dataclass(frozen=True)
class MarianOptions:
    """The checked options of a model."""

    depths: dict[str, int]
    heads: int
    feed_forward_dim: int
    activation: str

    @property
    def gelu(self) -> bool:
        """Marian's gelu is x * sigmoid(1.702 x)."""
        return self.activation == "gelu"

    @classmethod
    def of(cls, array: np.ndarray | None, file: pathlib.Path) -> "MarianOptions":
        """The options in the array special:model.yml, a text in bytes."""
        values = _parse(array, file)
        for name, allowed in _REQUIRED.items():
            if name not in values and name not in _MUST_BE_SAID:
                continue
            if values.get(name) not in allowed:
                raise ImportedModelError(
                    f"{file}: Marian's option {name} is {values.get(name)!r}; we have a part for "
                    f"{' or '.join(repr(each) for each in allowed)} only."
                )
        dim = _number(values, "transformer-dim-ffn", 2048, 1 << 20, file)
        decoder_dim = _number(values, "transformer-decoder-dim-ffn", 0, 1 << 20, file)
        if decoder_dim not in (0, dim):
            raise ImportedModelError(f"{file}: transformer-decoder-dim-ffn is {decoder_dim}, the encoder's {dim}.")
        depths = {stack: _number(values, f"{stack[:3]}-depth", 1, MAX_LAYERS, file) for stack in ("encoder", "decoder")}
        heads = _number(values, "transformer-heads", 8, 1024, file)
        if not heads:
            raise ImportedModelError(f"{file}: Marian's option transformer-heads must be above 0.")
        return cls(depths, heads, dim, values.get("transformer-ffn-activation", "swish"))

    def architecture(self, dim: int) -> dict:
        """Fields of `ModelConfig`."""
        return {
            "num_layers": self.depths["encoder"],
            "num_decoder_layers": None if len(set(self.depths.values())) == 1 else self.depths["decoder"],
            "num_heads": self.heads,
            "model_dim": dim,
            "feed_forward_dim": self.feed_forward_dim,
            "key_dim": dim // self.heads,
            "value_dim": dim // self.heads,
            "activation": "swish" if self.gelu else self.activation,
            "norm_epsilon": _EPSILON,
            "scale_embeddings": True,
        }


def _parse(array: np.ndarray | None, file: pathlib.Path) -> dict:
    if array is None:
        raise ImportedModelError(f"{file} has no special:model.yml: it is no model that Marian wrote.")
    try:
        values = yaml.safe_load(array.tobytes().rstrip(b"\0").decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ImportedModelError(f"{file}: special:model.yml is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise ImportedModelError(f"{file}: special:model.yml holds no options.")
    return values


def _number(values: dict, name: str, default: int, most: int, file: pathlib.Path) -> int:
    value = values.get(name, default)
    if type(value) is not int or not 0 <= value <= most:
        raise ImportedModelError(f"{file}: Marian's option {name} must be a whole number up to {most}, not {value!r}.")
    return value


_MAX_BYTES = 256 * 2**20
_HEX = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|U([0-9A-Fa-f]{8}))")
_YAML_ESCAPES = {r"\0": "\0", r"\a": "\a", r"\e": "\x1b", r"\v": "\v", r"\_": "\xa0", r"\N": "\x85"}
_YAML_ESCAPES |= {r"\L": "\u2028", r"\P": "\u2029", r"\ ": " "}
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)


def read_marian_vocabulary(file: str | pathlib.Path) -> list[str]:
    """The tokens of rows 0, 1, 2 …"""
    file = pathlib.Path(file)
    if file.stat().st_size > _MAX_BYTES:
        raise ImportedModelError(f"{file}: {file.stat().st_size:,} bytes are more than a vocabulary has.")
    rows: dict[int, str] = {}
    key = None
    # Only line feeds end a line: tokens may be other characters that Python's splitlines would split at.
    for number, line in enumerate(file.read_bytes().decode("utf-8", "replace").split("\n"), 1):
        line = line.removesuffix("\r")
        if line.startswith("? "):
            key = line[2:]
            continue
        if not line.strip() or line in ("---", "...") or (key is None and line.startswith("#")):
            continue
        token, _, row = line.rpartition(":")
        if key is not None:
            token, key = key, None
        if not row.strip().isdecimal() or int(row) in rows:
            raise ImportedModelError(
                f"{file}, line {number}: expected `token: row` with a row of its own, got {line[:80]!r}."
            )
        rows[int(row)] = _unquoted(token.rstrip(" "))
    if not rows or max(rows) >= 2 * len(rows):
        raise ImportedModelError(
            f"{file}: {len(rows)} tokens with rows up to {max(rows, default=0)} are no vocabulary."
        )
    return [rows.get(row, f"<row {row}>") for row in range(max(rows) + 1)]


def _unquoted(token: str) -> str:
    if len(token) >= 2 and token[0] == token[-1] == '"':
        return _ESCAPE.sub(_unescaped, token[1:-1])
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


def read_npz(file: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz`, of numbers only: pickled objects are never opened."""
    try:
        with zipfile.ZipFile(file) as archive:
            if sum(member.file_size for member in archive.infolist()) > MAX_BYTES:
                raise ValueError("it would unpack to more than any model has")
        with np.load(file, allow_pickle=False) as opened:
            return {name: opened[name] for name in opened.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, KeyError, TypeError, MemoryError) as error:
        raise ImportedModelError(f"{file} cannot be read: {error}. Get the file again.") from None


def _decoder_options(directory: pathlib.Path) -> dict:
    file = directory / "decoder.yml"
    if not file.is_file():
        return {}
    try:
        options = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ImportedModelError(f"{file} is not YAML: {error}") from None
    return options if isinstance(options, dict) else {}


def _weights_file(directory: pathlib.Path, decoder: dict) -> pathlib.Path:
    named = decoder.get("models") or []
    found = [directory / pathlib.Path(str(name)).name for name in named] or sorted(directory.glob("*.npz"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found)
        raise ImportedModelError(f"{directory}: expected one .npz, found {names}; give that file with --from.")
    if not found[0].is_file():
        raise ImportedModelError(f"{directory} has no {found[0].name}, which decoder.yml names.")
    return found[0]


def _vocabulary_files(directory: pathlib.Path, decoder: dict) -> list[pathlib.Path]:
    """The files of source and target."""
    named = [directory / pathlib.Path(str(name)).name for name in decoder.get("vocabs") or []]
    found = named or sorted({*directory.glob("*vocab.yml"), *directory.glob("*vocab*.yml")})
    # Two that are found say by nothing which is the source's.
    if len(found) not in ((1, 2) if named else (1,)) or not all(file.is_file() for file in found):
        names = ", ".join(file.name for file in found) or "none"
        raise ImportedModelError(
            f"{directory}: expected one vocab.yml, or decoder.yml with the two under `vocabs`; found {names}."
        )
    return [found[0], found[-1]]


def _licence(directory: pathlib.Path) -> str | None:
    """OPUS-MT's archives have a LICENSE, whose first line names it."""
    file = directory / "LICENSE"
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
    return next((line.strip()[:300] for line in lines if line.strip()), None)
