"""`tf-transformer` in a process that kills itself before its n-th operation on the files of a folder.

python killed_training.py N FOLDER train …

A kill by the clock comes at another place each time. The n-th operation is the same in every run of the same training,
and between two of them lies everything that a kill may interrupt: what is half written, renamed, removed, or computed.
"""

import os
import signal
import sys

from tf_transformer.pipelines.cli import main

OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}


class KillBefore:
    """Audit hook that counts operations on the files of `folder` and ends the process before number `count`."""

    def __init__(self, count: int, folder: str):
        self.left, self.folder = count, folder

    def __call__(self, event: str, arguments: tuple) -> None:
        if event in OPERATIONS and any(self._is_inside(argument) for argument in arguments):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def _is_inside(self, argument) -> bool:
        return isinstance(argument, str | os.PathLike) and os.fspath(argument).startswith(self.folder)


if __name__ == "__main__":
    hook = KillBefore(int(sys.argv[1]), sys.argv[2])
    sys.addaudithook(hook)
    code = main(sys.argv[3:])
    print(f"{int(sys.argv[1]) - hook.left} operations", file=sys.stderr)
    sys.exit(code)
