"""Where a version is written and how it appears: beside its place, then by one rename.

TensorFlow Serving takes every directory of MODEL_BASE whose name is a number for a version and ignores the rest.
"""

import contextlib
import os
import pathlib
import platform
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator

from tf_transformer._files import flush, sha256_of_file

# Two machines may share MODEL_BASE, and each can only tell of its own processes whether they are alive.
_WRITING = f".writing-{platform.node()}-"


@contextlib.contextmanager
def beside(base: pathlib.Path) -> Iterator[pathlib.Path]:
    """An empty directory in MODEL_BASE that servers ignore; it is gone in the end, and so are those of dead exports."""
    base.mkdir(parents=True, exist_ok=True)
    for leftover in base.glob(f"{_WRITING}*"):
        if not _is_alive(leftover):
            remove(leftover)
    directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{_WRITING}{os.getpid()}-", dir=base))
    try:
        yield directory
    finally:
        remove(directory)


def publish(directory: pathlib.Path, base: pathlib.Path) -> pathlib.Path:
    """Renames a finished SavedModel to MODEL_BASE's next version, and returns its path."""
    set_modes(directory, 0o777, 0o666, umask=True)
    for file in files_of(directory):
        flush(directory / file)
    while True:
        place = base / str(next_version(base))
        try:
            directory.rename(place)
        except OSError:
            if not place.exists():
                raise
            continue  # another export was quicker to take the number
        flush(base)
        return place


def next_version(base: pathlib.Path) -> int:
    """One more than the highest version in MODEL_BASE; 1 where there is none."""
    versions = [int(path.name) for path in base.iterdir() if re.fullmatch(r"[0-9]+", path.name)]
    return max(versions, default=0) + 1


def files_of(directory: pathlib.Path) -> list[str]:
    """The files under a directory, by their paths in it."""
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def checksums(directory: pathlib.Path) -> dict[str, dict]:
    """Size and SHA-256 of each file under a directory, by its path in it."""
    return {
        name: {"size": (directory / name).stat().st_size, "sha256": sha256_of_file(directory / name)}
        for name in files_of(directory)
    }


def make_read_only(directory: pathlib.Path) -> None:
    """Takes away all rights to write under a directory."""
    set_modes(directory, 0o555, 0o444)


def set_modes(directory: pathlib.Path, of_directories: int, of_files: int, umask: bool = False) -> None:
    """Sets the permissions of a directory and all that is under it; with `umask` less what that takes away."""
    if umask:
        taken = os.umask(0)
        os.umask(taken)
        of_directories, of_files = of_directories & ~taken, of_files & ~taken
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            path.chmod(of_directories if stat.S_ISDIR(path.lstat().st_mode) else of_files)


def remove(directory: pathlib.Path) -> None:
    """Removes a directory of this module, read-only or not."""
    if directory.is_dir():
        set_modes(directory, 0o755, 0o644)
    shutil.rmtree(directory, ignore_errors=True)


def _is_alive(directory: pathlib.Path) -> bool:
    """Whether the process that a directory's name speaks of is still there, or it is another machine's."""
    match = re.fullmatch(re.escape(_WRITING) + r"(\d+)-[^-]+", directory.name)
    if not match:
        return True
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
