"""What has to be certain about files: that they are on the disk, and that they are what was written."""

import hashlib
import os
import pathlib


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
