"""Record of the files that an import has read, for its report."""

import contextlib
import contextvars
import dataclasses
import pathlib
from collections.abc import Iterator

from tf_transformer._files import sha256_of_file


@dataclasses.dataclass(frozen=True)
class FileRead:
    """A file that an import has read."""

    name: str
    bytes: int
    sha256: str


_files: contextvars.ContextVar[dict[pathlib.Path, FileRead] | None] = contextvars.ContextVar("files", default=None)


@contextlib.contextmanager
def recorded_files() -> Iterator[dict[pathlib.Path, FileRead]]:
    """The files that readers open inside the block, in their order."""
    found: dict[pathlib.Path, FileRead] = {}
    token = _files.set(found)
    try:
        yield found
    finally:
        _files.reset(token)


def record_file(path: pathlib.Path) -> None:
    """Add a file to the record, if there is one. What cannot be read is left to the reader's own message."""
    found = _files.get()
    if found is None or path in found:
        return
    with contextlib.suppress(OSError):
        if path.is_file():
            found[path] = FileRead(path.name, path.stat().st_size, sha256_of_file(path))
