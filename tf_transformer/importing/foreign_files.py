"""The smaller files beside a stranger's weights: JSON, and the SentencePiece models wherever each format puts them."""

import json
import pathlib

from tf_transformer.importing.foreign_model import ImportedModelError
from tf_transformer.text.model_file import read_model_file

_MAX_JSON_BYTES = 64 * 2**20
_PAIRS = (("source.spm", "target.spm"), ("source.model", "target.model"))
_SINGLE = ("tokenizer.model", "sentencepiece.model", "sentencepiece.bpe.model", "spm.model")
_OTHER_KINDS = ("bpe.model", "source.bpe", "bpe.codes", "bpecodes", "codes")


def read_json(file: pathlib.Path, kind: type = dict):
    """A JSON file that must hold an object, or what `kind` says."""
    if not file.is_file():
        raise ImportedModelError(f"{file.parent} has no {file.name}.")
    if file.stat().st_size > _MAX_JSON_BYTES:
        raise ImportedModelError(f"{file}: {file.stat().st_size:,} bytes are more than such a file has.")
    try:
        values = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ImportedModelError(f"{file} is not JSON: {error}. Get the file again.") from None
    if not isinstance(values, kind):
        raise ImportedModelError(f"{file}: expected {kind.__name__}, got {type(values).__name__}.")
    return values


def sentencepiece_files(directory: pathlib.Path, source=None, target=None) -> tuple[bytes, bytes | None]:
    """The checked SentencePiece models of source and target; the second is None where there is one only.

    They are looked for in `directory` and in the one above it, where Argos' packages have them.

    Args:
        source, target: files to take instead of those that are found, each for itself.
    """
    found = _found_files(directory)
    source, target = source or found[0], target or found[1]
    if source is None:
        raise _no_source(directory)
    return read_model_file(source), None if target is None else read_model_file(target)


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
                    f"{folder / name}: BPE codes of subword-nmt are read by Python programs only. Our tokenizers run "
                    "inside the TensorFlow graph, which has SentencePiece: models with such codes cannot be imported."
                )
    return ImportedModelError(
        f"There is no SentencePiece model in {directory}: expected source.spm and target.spm, or "
        "sentencepiece.model. Name the files with --source-tokenizer and --target-tokenizer."
    )
