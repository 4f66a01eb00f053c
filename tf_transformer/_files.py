"""Atomic writing: a file or a directory appears complete and durable under its name, or not at all.

Everything is written under a hidden name beside its place, `.NAME.writing-XXXXXXXX`, flushed to the disk and renamed.
The writer holds a lock on the hidden entry; an entry without one was left by a killed process, and the next writer of
the same name removes it. Where the file system has no such locks, leftovers stay until they are removed by hand.
"""

import contextlib
import ctypes
import errno
import fcntl
import glob
import hashlib
import json
import os
import pathlib
import secrets
import shutil
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

_WRITING = ".writing-"
_NEW, _OLD = "new", "old"
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of writing that reading never has."""
_WRITE_ERRORS = NO_SPACE | {errno.EIO, errno.EROFS}


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike, *, exclusive: bool = False) -> Iterator[BinaryIO]:
    """Open a binary stream whose content becomes the file `path` at the end of the block.

    After an error `path` is as before. The permissions of a file that is replaced are kept; a symbolic link stays one.

    Args:
        exclusive: raise OSError if another process is writing this file. False: the last one to finish wins.
    """
    path = pathlib.Path(os.path.realpath(path))
    with named_errors(path):
        _remove_leftovers_of(path, exclusive)
        hidden, stream = _create_file(path)
        try:
            with stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
                # Renamed before it is closed, which gives up the lock: until then no process takes it for a leftover.
                os.replace(hidden, path)
            sync(path.parent)
        finally:
            hidden.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text file in UTF-8, atomically."""
    with atomic_write(path) as stream:
        stream.write(text.encode("utf-8"))


def write_json(path: str | os.PathLike, values: Any) -> None:
    """Write a JSON file, indented, atomically."""
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def atomic_directory(
    path: str | os.PathLike, *, replace: bool = True, exclusive: bool = False
) -> Iterator[pathlib.Path]:
    """Make an empty directory to write into, which becomes `path` at the end of the block.

    After an error `path` is as before. Missing parents are created.

    Args:
        replace: whether a directory at `path` is replaced. False: FileExistsError, unless it is empty.
        exclusive: raise OSError if another process is writing this directory. False: the last one to finish wins.
    """
    path = pathlib.Path(os.path.realpath(path))
    with named_errors(path), hidden_directory(path.parent, path.name, exclusive=exclusive) as hidden:
        new = hidden / _NEW
        new.mkdir()
        yield new
        sync_tree(new)
        _put_in_place(new, path, hidden / _OLD, replace)
        sync(path.parent)


@contextlib.contextmanager
def hidden_directory(parent: pathlib.Path, name: str, *, exclusive: bool = False) -> Iterator[pathlib.Path]:
    """Make the directory `.NAME.writing-XXXXXXXX` in `parent`, removed at the end of the block with all it contains.

    Those that killed processes left are removed first.
    """
    parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers_of(parent / name, exclusive)
    while True:
        hidden = _hidden_name(parent / name)
        hidden.mkdir(mode=0o700)
        descriptor = _open_locked(hidden)
        if descriptor is not None:
            break
    try:
        yield hidden
    finally:
        remove_tree(hidden)
        os.close(descriptor)


def remove_directory(path: pathlib.Path) -> None:
    """Remove a directory so that it disappears at once, by a rename, and not file by file."""
    with hidden_directory(path.parent, path.name) as hidden:
        path.rename(hidden / "removed")


def remove_leftovers_of(path: str | os.PathLike) -> None:
    """Remove what killed writers of `path` left, and restore what they were about to replace.

    For a command that finds its result complete and has nothing to write: the one before may have been killed after it
    renamed the result, and before it removed the rest.
    """
    _remove_leftovers_of(pathlib.Path(os.path.realpath(path)), exclusive=False)


def remove_leftovers(directory: str | os.PathLike) -> None:
    """Remove what killed processes left half-written in `directory`, and restore what they were about to replace."""
    for entry in pathlib.Path(directory).glob(f".*{_WRITING}*"):
        _remove_if_abandoned(entry)


def sync(path: str | os.PathLike) -> None:
    """Return when a file, or the entries of a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(directory: pathlib.Path) -> None:
    """Return when a directory and everything below it are on the disk."""
    for folder, _, files in os.walk(directory):
        for name in files:
            sync(os.path.join(folder, name))
        sync(folder)


def remove_tree(directory: pathlib.Path) -> None:
    """Remove a directory and everything below it, read-only or not; errors are ignored."""
    with contextlib.suppress(OSError):
        for folder, _, _ in os.walk(directory):
            os.chmod(folder, 0o700)
    shutil.rmtree(directory, ignore_errors=True)


def sha256_of_file(path: str | os.PathLike) -> str:
    """The SHA-256 of a file of any size, in hexadecimal."""
    with pathlib.Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def named_errors(path: pathlib.Path) -> Iterator[None]:
    """Let errors of writing name the file or directory, not its hidden name; other errors pass unchanged.

    TensorFlow has exceptions of its own for a full disk, with the system's words in their messages.
    """
    try:
        yield
    except OSError as error:
        hidden = _WRITING in str(error.filename or "")
        if error.errno is None or not (hidden or error.errno in _WRITE_ERRORS):
            raise
        raise _could_not_write(path, error.errno) from error
    except Exception as error:
        text = str(error)
        for number in NO_SPACE:
            if os.strerror(number) in text:
                raise _could_not_write(path, number) from error
        raise


def _could_not_write(path: pathlib.Path, number: int) -> OSError:
    return OSError(number, f"could not be written: {os.strerror(number)}", str(path))


def _hidden_name(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(f".{path.name}{_WRITING}{secrets.token_hex(4)}")


def _create_file(path: pathlib.Path) -> tuple[pathlib.Path, BinaryIO]:
    """A new hidden file beside `path`, locked, with the permissions of the file it will replace."""
    while True:
        hidden = _hidden_name(path)
        stream = open(hidden, "xb")  # noqa: SIM115  closed by the caller
        if _lock(stream.fileno()) is not False and _is_at(stream.fileno(), hidden):
            break
        stream.close()  # another process took it for a leftover before it was locked
    with contextlib.suppress(FileNotFoundError, PermissionError):
        os.fchmod(stream.fileno(), stat.S_IMODE(path.stat().st_mode))
    return hidden, stream


def _open_locked(directory: pathlib.Path) -> int | None:
    """A descriptor of a directory that holds its lock; None if another process has removed or locked it."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except FileNotFoundError:
        return None
    if _lock(descriptor) is not False and _is_at(descriptor, directory):
        return descriptor
    os.close(descriptor)
    return None


def _lock(descriptor: int) -> bool | None:
    """Return whether the lock could be taken; None where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_at(descriptor: int, path: pathlib.Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _remove_leftovers_of(path: pathlib.Path, exclusive: bool) -> None:
    alive = [
        entry for entry in path.parent.glob(f".{glob.escape(path.name)}{_WRITING}*") if not _remove_if_abandoned(entry)
    ]
    if alive and exclusive:
        raise BlockingIOError(
            f"Another process is writing {path} (as {alive[0].name}). Wait until it ends, or choose another name."
        )


def _remove_if_abandoned(entry: pathlib.Path) -> bool:
    """Remove a hidden entry whose writer is no longer alive; return whether it was removed."""
    try:
        descriptor = os.open(entry, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return not os.path.lexists(entry)
    try:
        if not _lock(descriptor) or not _is_at(descriptor, entry):
            return not os.path.lexists(entry)
        _restore_replaced(entry)
        if entry.is_dir():
            remove_tree(entry)
        else:
            entry.unlink(missing_ok=True)
        return True
    finally:
        os.close(descriptor)


def _restore_replaced(hidden: pathlib.Path) -> None:
    """Put back what a writer had moved aside when it was killed between two renames."""
    name = hidden.name.removeprefix(".").rpartition(_WRITING)[0]
    if (hidden / _OLD).is_dir() and not os.path.lexists(hidden.with_name(name)):
        (hidden / _OLD).rename(hidden.with_name(name))


def _put_in_place(new: pathlib.Path, path: pathlib.Path, old: pathlib.Path, replace: bool) -> None:
    """Rename `new` to `path`. A directory with content, which rename does not replace, is exchanged with `new`.

    Where the system cannot exchange two names, it is moved to `old` first.
    """
    while True:
        try:
            new.rename(path)
            return
        except OSError:
            if not path.is_dir():
                _restore_replaced(old.parent)
                raise
        if not replace:
            raise FileExistsError(errno.EEXIST, "There is a directory of this name", str(path))
        if _exchange(new, path):
            return
        remove_tree(old)
        with contextlib.suppress(FileNotFoundError):  # another process has just moved it aside
            path.rename(old)


def _exchange(one: pathlib.Path, other: pathlib.Path) -> bool:
    """Exchange two names in one step; return False where the system or the file system cannot."""
    try:
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # glibc has it since 2.28
        return False
    here, flag = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return exchange(here, os.fsencode(one), here, os.fsencode(other), flag) == 0
