"""Zip archives of external models, and the arrays of `.npz` files, which are such archives.

Names, sizes and compression ratios are checked in the archive's directory before any member is read.
"""

import contextlib
import math
import pathlib
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import cast

import numpy as np

from tf_transformer._files import NO_SPACE
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._files_read import record_file
from tf_transformer.importing._settings import shorten

MAX_BYTES = 16 * 2**30
MAX_FILES = 10_000
MAX_RATIO = 32
"""Bytes of all members for each byte of an archive. Weights and vocabularies have a ratio below 10."""
_SMALL = 2**20
_ENCRYPTED = 0x1
_ERRORS: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    NotImplementedError,
)
_ERRORS += (RuntimeError, struct.error, OverflowError)
_ARRAY_TYPES = {"<f4": np.float32, "<f2": np.float16, "|i1": np.int8, "|u1": np.uint8}
# Marian writes a byte order even where there is none.
_ARRAY_TYPES |= {"<i1": np.int8, "<u1": np.uint8}
_HEADER_BYTES = 4096
_HEADER = re.compile(
    rb"\{'descr': '([<>|=]\w{1,8})', 'fortran_order': (True|False), 'shape': \(((?:\d{1,10},? ?){0,8})\), \} *\n"
)


def unpack(archive: pathlib.Path, directory: pathlib.Path) -> None:
    """Unpack the files of a zip archive.

    Rejects, before anything is written, archives with files that would be outside of `directory`, with links, and
    with sizes that no model has. Permissions are not taken over.
    """
    with open_archive(archive) as opened:
        members = [member for member in opened.infolist() if not member.is_dir()]
        _check_names(members, archive, directory)
        for member in members:
            target = directory / member.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(member) as source, open(target, "xb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def read_npz(file: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz`: float32, float16 and bytes. Pickled objects are rejected by their header."""
    with open_archive(file, "an archive of NumPy's arrays") as opened:
        return {member.filename.removesuffix(".npy"): _array(opened, member) for member in opened.infolist()}


@contextlib.contextmanager
def open_archive(archive: pathlib.Path, what: str = "a zip archive") -> Iterator[zipfile.ZipFile]:
    """An archive whose sizes were checked; errors of any kind inside the block become ImportedModelError.

    Args:
        what: what the file should be, for messages.
    """
    record_file(archive)
    try:
        with zipfile.ZipFile(archive) as opened:
            _check_sizes(opened.infolist(), archive.stat().st_size)
            yield opened
    except ImportedModelError:
        raise
    except _ERRORS as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise
        raise ImportedModelError(
            f"{archive}: expected {what}. Received: {shorten(error)}. Get the file again."
        ) from None


def _check_sizes(members: list[zipfile.ZipInfo], size: int) -> None:
    total = sum(member.file_size for member in members)
    if len(members) > MAX_FILES or total > MAX_BYTES:
        raise ValueError(f"{len(members):,} files of {total:,} bytes, more than any model has")
    if total > MAX_RATIO * size + _SMALL:
        raise ValueError(f"{size:,} bytes that unpack to {total:,}, more than {MAX_RATIO} times as much")
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & _ENCRYPTED:
            raise ValueError(f"{member.filename[:80]!r}, which is encrypted or not compressed by deflate")
    if len({member.filename for member in members}) != len(members):
        raise ValueError("two files of the same name")


def _check_names(members: list[zipfile.ZipInfo], archive: pathlib.Path, directory: pathlib.Path) -> None:
    root = directory.resolve()
    for member in members:
        target = (root / member.filename).resolve()
        linked = stat.S_ISLNK(member.external_attr >> 16)
        if linked or "\\" in member.filename or not target.is_relative_to(root) or target == root:
            raise ImportedModelError(
                f"{archive}: expected files inside the archive's folder. Received: {member.filename[:80]!r}, which "
                "leads outside of it. Nothing was unpacked; do not trust this file."
            )


def _array(opened: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One `.npy` member: its header is matched as text, so nothing in it is evaluated."""
    name = member.filename[:80]
    with opened.open(member) as stream:
        start = stream.read(8)
        width = {b"\x01": 2, b"\x02": 4}.get(start[6:7])
        if not start.startswith(b"\x93NUMPY") or width is None:
            raise ValueError(f"{name!r}, which is not an array in NumPy's format 1 or 2")
        length = int.from_bytes(stream.read(width), "little")
        match = _HEADER.fullmatch(stream.read(length)) if length <= _HEADER_BYTES else None
        if match is None or match[1].decode() not in _ARRAY_TYPES:
            kind = match[1].decode() if match else "unknown"
            raise ValueError(f"{name!r} of type {kind}, which is none of {', '.join(_ARRAY_TYPES)}")
        dtype = np.dtype(_ARRAY_TYPES[match[1].decode()])
        shape = tuple(int(size) for size in re.findall(rb"\d+", match[3]))
        if math.prod(shape) * dtype.itemsize != member.file_size - 8 - width - length or 0 in shape:
            raise ValueError(f"{name!r} of shape {shape}, which does not fit its {member.file_size:,} bytes")
        value = np.empty(math.prod(shape), dtype)
        if cast(zipfile.ZipExtFile, stream).readinto(value.view(np.uint8).data) != value.nbytes or stream.read(1):
            raise ValueError(f"{name!r}, which is truncated")
    return value.reshape(shape, order="F" if match[2] == b"True" else "C")
