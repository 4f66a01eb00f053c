"""The whole job of `import`: files of some format in, a work directory out."""

import dataclasses
import logging
import os
import pathlib
import tempfile
import zipfile
from collections.abc import Sequence

from tf_transformer._files import atomic_directory, hidden_directory, named_errors, remove_leftovers_of, write_json
from tf_transformer.config import ConfigError
from tf_transformer.importing._archive import unpack
from tf_transformer.importing._assembly import ImportedModel, assemble, check_names
from tf_transformer.importing._external_model import ExternalModel, ImportedModelError
from tf_transformer.importing._files_read import recorded_files
from tf_transformer.importing._trimming import Trimming, trim
from tf_transformer.importing.ctranslate2 import argos_facts, read_ctranslate2
from tf_transformer.importing.downloads import Download, check_sha256, download_model, is_remote
from tf_transformer.importing.huggingface import read_huggingface
from tf_transformer.importing.marian import is_marian_binary, is_marian_folder, read_marian
from tf_transformer.text import TokenizerError
from tf_transformer.workdir import Workdir
from tf_transformer.workdir.checkpoints import CheckpointError, save_checkpoint, step_directory

FACTS = "import.json"

logger = logging.getLogger(__name__)


def import_model(
    path: str | os.PathLike,
    workdir: str | os.PathLike,
    *,
    source_tokenizer: str | os.PathLike | None = None,
    target_tokenizer: str | os.PathLike | None = None,
    languages: tuple[str | None, str | None] = (None, None),
    licence: str | None = None,
    sha256: str | None = None,
    keep_languages: Sequence[str] = (),
    keep_pieces_of: Sequence[str | os.PathLike] = (),
) -> Workdir:
    """Write the model at `path` as the work directory `workdir`, which must not be there, and return it.

    Everything is read and checked before anything is written, and the directory appears complete, by a rename.

    Args:
        path: a folder of Marian's, Hugging Face's or CTranslate2's; Marian's `.npz`; an Argos package or another zip
            archive of such a folder. Or a model elsewhere: `hf:OWNER/NAME[@REVISION]`, or the https address of an
            archive.
        source_tokenizer, target_tokenizer: SentencePiece models, where they are not beside the weights.
        languages: of source and target, where the files do not say.
        licence: of the model, where the files do not say; goes into the model card of an export.
        sha256: checksum that an archive, or another file, must have.
        keep_languages: removes the vocabulary's rows that text in the scripts of these languages does not need.
        keep_pieces_of: removes the vocabulary's rows that the text of these files does not need.
    """
    workdir = pathlib.Path(workdir)
    remove_leftovers_of(workdir)
    if workdir.exists() and (not workdir.is_dir() or any(workdir.iterdir())):
        raise ImportedModelError(
            f"Expected a new work directory. Received: {workdir}, which is not empty. Give another --workdir."
        )
    origin = _origin(path, sha256)
    with recorded_files() as files:
        external = _read_beside(workdir, origin.path, source_tokenizer, target_tokenizer)
    external = dataclasses.replace(
        external,
        languages=(languages[0] or external.languages[0], languages[1] or external.languages[1]),
        licence=licence or external.licence or origin.licence,
    )
    facts = origin.facts | {"files": [dataclasses.asdict(file) for file in files.values()]}
    if keep_languages or keep_pieces_of:
        trimming = Trimming(tuple(keep_languages), tuple(keep_pieces_of))
        rows = [len(side.tokens) for side in (external.source, external.target)]
        external = trim(external, trimming)
        kept = [len(side.tokens) for side in (external.source, external.target)]
        facts["trimmed"] = trimming.facts() | {"source": [rows[0], kept[0]], "target": [rows[1], kept[1]]}
    imported, external = _assembled(external, origin.path), external.without_weights()
    _write(workdir, imported, external, facts)
    if external.licence is None:
        logger.warning("%s states no licence; name the model's with --licence, so that exports carry it on.", path)
    return Workdir(workdir)


def _origin(path: str | os.PathLike, sha256: str | None) -> Download:
    """The local files of a model, downloaded where `path` names one elsewhere."""
    if isinstance(path, str) and is_remote(path):
        return download_model(path, sha256)
    path = pathlib.Path(path)
    if sha256 is not None:
        if not path.is_file():
            raise ImportedModelError(
                f"Expected one file with --sha256. Received: {path}, which is none. Leave --sha256 out."
            )
        check_sha256(path, sha256)
    return Download(path, {"from": path.name})


def _read_beside(
    workdir: pathlib.Path,
    path: pathlib.Path,
    source_tokenizer: str | os.PathLike | None,
    target_tokenizer: str | os.PathLike | None,
) -> ExternalModel:
    """The external model; an archive is unpacked beside `workdir`: the next `import` removes what a killed one left."""
    if not _is_archive(path):
        return read_model(path, source_tokenizer, target_tokenizer)
    place = pathlib.Path(os.path.realpath(workdir))
    with named_errors(place), hidden_directory(place.parent, place.name, exclusive=True) as scratch:
        return read_model(path, source_tokenizer, target_tokenizer, scratch)


def read_model(
    path: pathlib.Path,
    source_tokenizer: str | os.PathLike | None = None,
    target_tokenizer: str | os.PathLike | None = None,
    scratch: pathlib.Path | None = None,
) -> ExternalModel:
    """The external model at `path`, in any of the formats.

    Args:
        path, source_tokenizer, target_tokenizer: as in `import_model`.
        scratch: directory in which an archive is unpacked; None: that of temporary files.
    """
    path = pathlib.Path(path)
    if not path.exists():
        raise ImportedModelError(f"Expected a folder or a file with a model. Received: {path}, which does not exist.")
    if _is_archive(path):
        return _read_archive(path, source_tokenizer, target_tokenizer, scratch)
    if path.is_file() and (path.suffix == ".npz" or (path.suffix == ".bin" and is_marian_binary(path))):
        return read_marian(path.parent, path, source_tokenizer, target_tokenizer)
    if path.is_file() and path.suffix in (".pt", ".bin", ".pkl", ".ckpt"):
        raise ImportedModelError(
            f"{path}: expected the folder of a model. Received: a file of weights alone. Give the folder of a Hugging "
            "Face or CTranslate2 model. fairseq's checkpoints cannot be imported: their BPE codes have no tokenizer "
            "inside the TensorFlow graph."
        )
    if path.is_dir():
        return _read_folder(path, source_tokenizer, target_tokenizer)
    raise ImportedModelError(
        f"{path}: expected a folder, Marian's .npz or .bin, or a .zip or .argosmodel. Received: another kind of file."
    )


def _is_archive(path: pathlib.Path) -> bool:
    return path.is_file() and path.suffix in (".argosmodel", ".zip")


def _read_archive(
    path: pathlib.Path,
    source_tokenizer: str | os.PathLike | None,
    target_tokenizer: str | os.PathLike | None,
    scratch: pathlib.Path | None,
) -> ExternalModel:
    if not zipfile.is_zipfile(path):
        raise ImportedModelError(f"{path}: expected a zip archive. Received: another file. Get the file again.")
    with tempfile.TemporaryDirectory(prefix="tf_transformer-import-", dir=scratch) as folder:
        unpack(path, pathlib.Path(folder))
        try:
            return _read_folder(_model_folder(pathlib.Path(folder), path), source_tokenizer, target_tokenizer)
        except ImportedModelError as error:
            raise ImportedModelError(str(error).replace(folder, str(path))) from None


def _read_folder(
    path: pathlib.Path, source_tokenizer: str | os.PathLike | None, target_tokenizer: str | os.PathLike | None
) -> ExternalModel:
    if (path / "model.bin").is_file():
        external = read_ctranslate2(path, source_tokenizer, target_tokenizer)
        languages, licence = argos_facts(path.parent if (path.parent / "metadata.json").is_file() else path)
        return dataclasses.replace(external, languages=languages, licence=licence)
    if (path / "model" / "model.bin").is_file():
        return _read_folder(path / "model", source_tokenizer, target_tokenizer)
    if (path / "config.json").is_file():
        return read_huggingface(path, source_tokenizer, target_tokenizer)
    if is_marian_folder(path):
        return read_marian(path, None, source_tokenizer, target_tokenizer)
    names = ", ".join(sorted(file.name for file in path.iterdir())[:8]) or "nothing"
    raise ImportedModelError(
        f"{path}: expected a model of Marian (*.npz, model*.bin), Hugging Face (config.json) or CTranslate2 "
        f"(model.bin). Received: a folder with {names}. Check the path."
    )


def _model_folder(folder: pathlib.Path, archive: pathlib.Path) -> pathlib.Path:
    """The shallowest folder of an unpacked archive that holds a model."""
    marks = [file for name in ("*.bin", "*.npz", "config.json") for file in folder.rglob(name)]
    if not marks:
        raise ImportedModelError(
            f"{archive}: expected a model. Received: an archive without *.bin, *.npz and config.json. Check the file."
        )
    return min((mark.parent for mark in marks), key=lambda found: len(found.parts))


def _assembled(external: ExternalModel, path: pathlib.Path) -> ImportedModel:
    """Our form of the model; its weights are checked to be those of the model that its configuration describes."""
    try:
        imported = assemble(external)
        check_names(imported)
    except (ImportedModelError, TokenizerError, ConfigError, CheckpointError) as error:
        named = str(path) in str(error)
        raise ImportedModelError(str(error) if named else f"{path}: {error}") from None
    return imported


def _write(workdir: pathlib.Path, imported: ImportedModel, external: ExternalModel, origin: dict) -> None:
    facts: dict = {"format": external.format, "licence": external.licence, "languages": external.languages}
    facts["parameters"] = sum(tensor.size for tensor in imported.tensors.values())
    data: dict = {"source_language": external.languages[0], "target_language": external.languages[1]}
    data["tokenizer"] = {"sha256": imported.tokenizers.sha256}
    with atomic_directory(workdir, replace=False, exclusive=True) as directory:
        Workdir.create(directory, imported.config, imported.tokenizers, data)
        write_json(directory / FACTS, facts | origin)
        save_checkpoint(directory / "checkpoints" / step_directory(0), imported.tensors, step=0)
