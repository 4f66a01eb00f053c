"""A lock on a work directory, so that two jobs never train in it at once."""

import fcntl
import os
import pathlib
import socket

NAME = ".lock"


class RunLockedError(ValueError):
    """Another process is training in the directory."""


class RunLock:
    """Held from `with` to its end. The operating system lets go of it when the process dies, however it dies."""

    def __init__(self, directory: str | os.PathLike):
        self._file = pathlib.Path(directory) / NAME
        self._stream = None

    def __enter__(self) -> "RunLock":
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._stream = open(self._file, "a+", encoding="utf-8")
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._stream.seek(0)
            holder = self._stream.read().strip() or "another process"
            self._stream.close()
            raise RunLockedError(
                f"{self._file.parent} is in use: {holder} is training there. Wait for it, stop it, or give another "
                "--workdir."
            ) from error
        self._stream.truncate(0)
        self._stream.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self._stream.flush()
        return self

    def __exit__(self, *_) -> None:
        self._stream.close()
