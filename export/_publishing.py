"""Publishing of an export: written in a hidden directory of MODEL_BASE, then renamed to the next version number."""

import contextlib
import os
import pathlib
import stat
from collections.abc import Iterator

from tf_transformer._files import hidden_directory, named_errors, sha256_of_file, sync, sync_tree
from tf_transformer._model_versions import next_version


@contextlib.contextmanager
def workspace(base: pathlib.Path) -> Iterator[pathlib.Path]:
    """An empty directory in MODEL_BASE that servers ignore, removed at the end; killed exports' are removed too."""
    with named_errors(base), hidden_directory(base, "export") as directory:
        yield directory


def publish(directory: pathlib.Path, base: pathlib.Path) -> pathlib.Path:
    """Rename a finished SavedModel to MODEL_BASE's next version, and return its path."""
    set_modes(directory, 0o777, 0o666, umask=True)
    sync_tree(directory)
    while True:
        place = base / str(next_version(base))
        try:
            directory.rename(place)
        except OSError:
            if not place.exists():
                raise
            continue  # another export has taken the number meanwhile
        sync(base)
        return place


def files_of(directory: pathlib.Path) -> list[str]:
    """The files below a directory, as relative paths."""
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def checksums(directory: pathlib.Path) -> dict[str, dict]:
    """Size and SHA-256 of each file below a directory, by relative path."""
    return {
        name: {"size": (directory / name).stat().st_size, "sha256": sha256_of_file(directory / name)}
        for name in files_of(directory)
    }


def make_read_only(directory: pathlib.Path) -> None:
    """Remove all write permissions below a directory."""
    set_modes(directory, 0o555, 0o444)


def set_modes(directory: pathlib.Path, of_directories: int, of_files: int, umask: bool = False) -> None:
    """Set the permissions of a directory and everything below it, with `umask` minus those that it masks."""
    if umask:
        mask = os.umask(0)
        os.umask(mask)
        of_directories, of_files = of_directories & ~mask, of_files & ~mask
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            path.chmod(of_directories if stat.S_ISDIR(path.lstat().st_mode) else of_files)
