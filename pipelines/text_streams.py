"""Where a command's text comes from and goes to: files, or standard input and output."""

import contextlib
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def open_input(path: str | None) -> Iterator[BinaryIO]:
    """The bytes of a file, or of standard input for None and "-"."""
    if path in (None, "-"):
        yield sys.stdin.buffer
    else:
        with open(path, "rb") as stream:
            yield stream


@contextlib.contextmanager
def open_output(path: str | None) -> Iterator[BinaryIO]:
    """Standard output for None and "-", or a file that appears when all went well; until then the old one stays.

    A link stays one: the file that it leads to is replaced.
    """
    if path in (None, "-", "/dev/stdout"):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif os.path.exists(path) and not os.path.isfile(path):
        # A pipe or a device is not replaced by a file.
        with open(path, "wb") as stream:
            yield stream
    else:
        with _replacing(pathlib.Path(os.path.realpath(path))) as stream:
            yield stream


@contextlib.contextmanager
def _replacing(path: pathlib.Path) -> Iterator[BinaryIO]:
    beside = path.with_name(f".{path.name}.writing-{os.getpid()}")
    try:
        with open(beside, "wb") as stream:
            yield stream
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def quiet_broken_pipe() -> Iterator[None]:
    """Ends the block without a message where the reader of standard output has gone, as after `| head`."""
    try:
        yield
    except BrokenPipeError:
        # Python flushes standard output once more when it exits, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
