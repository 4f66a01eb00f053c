"""Zip archives from strangers, such as Argos' packages: unpacked into a directory and nowhere else."""

import pathlib
import shutil
import stat
import zipfile
import zlib

from tf_transformer.importing.foreign_model import ImportedModelError

MAX_BYTES = 16 * 2**30
MAX_FILES = 10_000


def unpack(archive: pathlib.Path, directory: pathlib.Path) -> None:
    """Unpacks the files of a zip archive.

    Refuses, before anything is written, archives whose files would land outside of `directory`, links, and sizes that
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
