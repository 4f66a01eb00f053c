"""Little-endian binary files of external models, read in order and never beyond their size."""

import math
import os
import pathlib
import struct
from types import TracebackType

import numpy as np

from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._files_read import record_file
from tf_transformer.importing._settings import shorten

MAX_BYTES = 16 * 2**30


class BinaryFile:
    """An open binary file. Every length in it is compared with what is left of the file before memory is allocated.

    Args:
        path: the file.
        what: what it should be, for messages.
    """

    def __init__(self, path: pathlib.Path, what: str) -> None:
        if not path.is_file():
            raise ImportedModelError(
                f"{path.parent}: expected {what}. Received: a folder without {path.name}. Check the path."
            )
        record_file(path)
        self.path, self._what = path, what
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise ImportedModelError(f"{path}: expected a file that can be read. Received: {shorten(error)}.") from None
        self.size = os.fstat(self._file.fileno()).st_size
        if self.size > MAX_BYTES:
            self._file.close()
            raise self.error(f"{self.size:,} bytes, more than any model has")

    def __enter__(self) -> "BinaryFile":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._file.close()

    def error(self, what: str, advice: str = "Get the file again.") -> ImportedModelError:
        return ImportedModelError(f"{self.path}: expected {self._what}. Received: {what}. {advice}")

    @property
    def position(self) -> int:
        return self._file.tell()

    def skip_to(self, position: int) -> None:
        if not self.position <= position <= self.size:
            raise self.error(f"a truncated file of {self.size:,} bytes")
        self._file.seek(position)

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        self._check(size)
        return self._file.read(size)

    def number(self, form: str) -> int:
        """The next number, in a form of `struct`."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def numbers(self, form: str, count: int) -> np.ndarray:
        """The next `count` numbers of a NumPy type, as a new array."""
        return self.array(form, (count,))

    def array(self, form: str, shape: tuple[int, ...]) -> np.ndarray:
        """The next values of a NumPy type, as a new array of `shape`."""
        dtype = np.dtype(form)
        self._check(math.prod(shape) * dtype.itemsize)
        value = np.empty(math.prod(shape), dtype)
        if self._file.readinto(value.view(np.uint8).data) != value.nbytes:
            raise self.error("a file that became shorter while it was read")
        return value.reshape(shape)

    def check_end(self) -> None:
        if self.position != self.size:
            raise self.error(f"{self.size - self.position:,} bytes behind its end")

    def _check(self, size: int) -> None:
        if size > self.size - self.position:
            raise self.error(f"a truncated file of {self.size:,} bytes")
