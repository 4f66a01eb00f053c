"""Marian's own files, as OPUS-MT releases them.

*.npz                     the weights, and the options in the array special:model.yml
*.vocab.yml, vocab.yml    token: row; two of them where the vocabularies are separate
source.spm, target.spm    SentencePiece
decoder.yml               which of the files belong together
"""

import pathlib
import zipfile
import zlib

import numpy as np
import yaml

from tf_transformer.importing.archive import MAX_BYTES
from tf_transformer.importing.foreign_files import sentencepiece_files
from tf_transformer.importing.foreign_model import ForeignModel, ImportedModelError, vocabulary
from tf_transformer.importing.layer_weights import gelu_sigmoid_as_swish, layer_tensors
from tf_transformer.importing.marian_layers import MarianLayers
from tf_transformer.importing.marian_options import MarianOptions
from tf_transformer.importing.marian_vocabulary import read_marian_vocabulary
from tf_transformer.importing.positions import position_fields

OPTIONS = "special:model.yml"


def read_marian(
    directory: pathlib.Path, file: pathlib.Path | None = None, source_file=None, target_file=None
) -> ForeignModel:
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
    return ForeignModel(
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
