"""Text that commands read and write: files, standard input and output, or a split of the prepared data."""

import argparse
import contextlib
import os
import pathlib
import select
import sys
from collections.abc import Iterator
from typing import BinaryIO

from tf_transformer._files import atomic_write


@contextlib.contextmanager
def open_input(path: str | None) -> Iterator[BinaryIO]:
    """The bytes of a file, or of standard input for None and "-"."""
    if path in (None, "-"):
        yield sys.stdin.buffer
    else:
        with open_file(path) as stream:
            yield stream


def open_file(path: str) -> BinaryIO:
    """Open a file of text that the user named; an error says what was expected."""
    try:
        return open(path, "rb")
    except OSError as error:
        place = "" if os.path.isabs(path) else f" The path is relative to {os.getcwd()}."
        raise ValueError(f"Expected a text file. Received: {path} ({error.strerror}).{place}") from error


@contextlib.contextmanager
def open_output(path: str | None) -> Iterator[BinaryIO]:
    """Standard output for None and "-", or a file that is written atomically; a symbolic link stays one."""
    if path in (None, "-", "/dev/stdout"):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif os.path.exists(path) and not os.path.isfile(path):
        # A pipe or a device is not replaced by a file.
        with open(path, "wb") as stream:
            yield stream
    else:
        with atomic_write(path, exclusive=True) as stream:
            yield stream


@contextlib.contextmanager
def quiet_broken_pipe(only_stdout: bool = False) -> Iterator[None]:
    """End the block without a message if the reader of standard output has gone, as after `| head`.

    Args:
        only_stdout: whether an error of another pipe, such as that of a process, is raised.
    """
    try:
        yield
    except BrokenPipeError:
        if only_stdout and not _reader_has_gone():
            raise
        # Python flushes standard output once more when it exits, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reader_has_gone() -> bool:
    """Whether standard output is a pipe or socket that nothing reads any more."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), select.POLLOUT)
    except OSError:  # no file: replaced by a stream in memory
        return False
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def lines_of_files(source: str, target: str) -> tuple[list[str], list[str]]:
    """The lines of two files with the same number of lines, malformed UTF-8 replaced."""
    from tf_transformer.text import read_lines

    sides = []
    for path in (source, target):
        with open_file(path) as stream:
            sides.append([line.decode("utf-8", "replace") for line in read_lines(stream)])
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"Expected as many lines in {source} as in {target}. Received: {len(sides[0]):,} and {len(sides[1]):,}. "
            "Check that both belong to the same test set."
        )
    return sides[0], sides[1]


def lines_of_split(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Sources and references of `--split` of the data that the model was trained on."""
    from tf_transformer.data import PreparedDataset

    return PreparedDataset(prepared_directory(args)).lines(args.split)


def prepared_directory(args: argparse.Namespace) -> pathlib.Path:
    """The prepared directory of --data, or that recorded in the work directory."""
    if args.data is not None:
        return pathlib.Path(args.data)
    if args.workdir is None:
        raise ValueError(
            "Expected sentences. Received: none. Give --data DIR, a prepared directory, or --source and --reference."
        )
    from tf_transformer.workdir import Workdir

    directory = Workdir(args.workdir).dataset_info.get("directory")
    if directory is None:
        raise ValueError(
            f"Expected a work directory that records its data. Received: {args.workdir}, which does not. Give --data "
            "DIR, a prepared directory, or --source and --reference."
        )
    return pathlib.Path(directory)
