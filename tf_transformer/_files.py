"""Durable and atomic file operations: flush to disk, checksums, directories that appear complete or not at all."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
from collections.abc import Iterator


def flush(path: str | os.PathLike) -> None:
    """Returns when a file, or the entries of a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of_file(path: str | os.PathLike) -> str:
    """The SHA-256 of a file of any size, in hexadecimal."""
    with pathlib.Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def staged_directory(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A new directory beside `path` to write into; it takes the place of `path` at the end of the block.

    After an error or an interrupt it is gone and `path` is as before. What a killed process left is cleared by the
    next one; a second process at work on the same `path` is rejected.
    """
    path = path.absolute()
    partial, old = path.with_name(f"{path.name}.partial"), path.with_name(f".{path.name}.replaced")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(partial):
        _clear(partial)
        try:
            yield partial
            if path.exists():
                shutil.rmtree(old, ignore_errors=True)
                path.rename(old)
            partial.rename(path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            # Between the two renames an old directory is all there is: keep it until a new one stands.
            if path.exists():
                shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _locked(directory: pathlib.Path) -> Iterator[None]:
    directory.mkdir(exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ValueError(
            f"another process is writing {directory}; wait until it ends, or give another output directory"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


def _clear(directory: pathlib.Path) -> None:
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
