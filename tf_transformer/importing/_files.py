"""Files of external models: zip archives, JSON and SentencePiece models, read without trusting them."""

import json
import pathlib
import shutil
import stat
import zipfile
import zlib

from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.text import read_model_file

MAX_BYTES = 16 * 2**30
MAX_FILES = 10_000


def unpack(archive: pathlib.Path, directory: pathlib.Path) -> None:
    """Unpacks the files of a zip archive.

    Rejects, before anything is written, archives whose files would land outside of `directory`, links, and sizes that
    no model has. Directories and times are the archive's, permissions are not.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [member for member in opened.infolist() if not member.is_dir()]
            _check(members, archive, directory)
            for member in members:
                _write(opened, member, directory / member.filename)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ImportedModelError(f"{archive} is damaged or no zip archive: {error}. Get the file again.") from None


def _check(members: list[zipfile.ZipInfo], archive: pathlib.Path, directory: pathlib.Path) -> None:
    if len(members) > MAX_FILES or sum(member.file_size for member in members) > MAX_BYTES:
        raise ImportedModelError(f"{archive} would unpack to more than any model has; it was not unpacked.")
    root = directory.resolve()
    for member in members:
        target = (root / member.filename).resolve()
        linked = stat.S_ISLNK(member.external_attr >> 16)
        if linked or "\\" in member.filename or not target.is_relative_to(root) or target == root:
            raise ImportedModelError(
                f"{archive} has a file {member.filename!r} that leads outside of it; it was not unpacked."
            )


def _write(opened: zipfile.ZipFile, member: zipfile.ZipInfo, target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with opened.open(member) as source, open(target, "wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)


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
