"""Commands in forked copies of one process that has imported TensorFlow, killed or limited at chosen places.

A start of TensorFlow costs seconds, a fork of a process that has only imported it nothing: a command can be killed at
many places. Places are counted in operations on files, as Python's audit events report them, and not in seconds: the
n-th operation is the same in every run of the same command.

`CommandForker` starts the process; run as a script, this file is that process. It reads requests, a list of commands
per line, forks them all, and answers with a line when all have ended.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback

OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.chmod", "os.listdir"}
OPERATIONS |= {"os.scandir", "shutil.rmtree", "tempfile.mkdtemp", "subprocess.Popen"}


@dataclasses.dataclass
class Command:
    """A command to fork.

    Attributes:
        argv: arguments of `tf-transformer`.
        folder: operations on files below it are counted; its `tmp` is the directory of temporary files.
        kill_before: number of the operation before which the process kills itself.
        watch: whether the visible state of `folder`, and the space in use, are recorded before each operation.
        file_bytes: limit of the size of a file: writing more fails, or ends the process if `fatal`.
        clock: seconds by which the clock jumps back each time it is read.
    """

    argv: list[str]
    folder: str
    kill_before: int | None = None
    watch: bool = False
    file_bytes: int | None = None
    fatal: bool = False
    clock: float = 0.0


@dataclasses.dataclass
class Outcome:
    """The end of a command.

    Attributes:
        code: exit code, or the negative number of a signal.
        text: everything it printed.
        operations: how many there were; 0 if it was killed.
        states: the different visible states in their order, if they were recorded.
        kilobytes: in use on the file system of the folder at most, if they were recorded.
    """

    code: int
    text: str = ""
    operations: int = 0
    states: list[str] = dataclasses.field(default_factory=list)
    kilobytes: int = 0


def visible_state(folder: str | os.PathLike) -> str:
    """Digest of the files below `folder`, names and contents, without temporary ones and those with hidden names."""
    digest = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        top = os.path.samefile(place, folder)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and not (top and name == "tmp"))
        for name in sorted(name for name in files if not name.startswith(".")):
            path = os.path.join(place, name)
            with open(path, "rb") as stream:
                content = hashlib.sha256(stream.read()).digest()
            digest.update(os.path.relpath(path, folder).encode() + b"\0" + content)
    return digest.hexdigest()


def hidden_entries(folder: pathlib.Path) -> list[str]:
    """Files that must not remain: hidden names below `folder` but that of a run's lock, temporary files."""
    hidden = [path for path in folder.rglob(".*") if not path.is_relative_to(folder / "tmp") and path.name != ".lock"]
    # AutoGraph, which saves a SavedModel, keeps a page of generated code until the process exits.
    temporary = (path for path in folder.glob("tmp/*") if not path.name.startswith("__autograph_generated_file"))
    return sorted(str(path.relative_to(folder)) for path in (*hidden, *temporary))


class CommandForker:
    """The process that forks commands; to be used in a `with` block."""

    def __init__(self, *prefix: str):
        """
        Args:
            *prefix: command that runs the process, such as `unshare`.
        """
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
        self._process = subprocess.Popen(
            [*prefix, sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def __enter__(self) -> "CommandForker":
        return self

    def __exit__(self, *_) -> None:
        self._process.communicate()

    def run(self, *commands: Command) -> list[Outcome]:
        """Runs commands at the same time."""
        return self._ask([dataclasses.asdict(command) for command in commands])

    def mount(self, folder: pathlib.Path, kilobytes: int, content: pathlib.Path) -> Outcome:
        """Mounts a file system of limited size at `folder`, only for this process, with a copy of `content`."""
        return self._ask([{"mount": str(folder), "kilobytes": kilobytes, "content": str(content)}])[0]

    def inspect(self, folder: pathlib.Path) -> tuple[str, list[str]]:
        """`visible_state` and `hidden_entries` of a folder as this process sees it."""
        (outcome,) = self._ask([{"inspect": str(folder)}])
        return outcome.states[0], outcome.text.split()

    def _ask(self, request: list[dict]) -> list[Outcome]:
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process that forks commands has ended"
        return [Outcome(**each) for each in json.loads(line)]


class Operations:
    """Audit hook that counts operations on files, records what is visible before them, and kills the process."""

    def __init__(self, command: Command):
        self._command, self._folder, self._process = command, os.path.realpath(command.folder), os.getpid()
        self.count = 0
        self.states: list[str] = []
        self.kilobytes = 0
        self._inside = False

    def __call__(self, event: str, arguments: tuple) -> None:
        if event not in OPERATIONS or self._inside or os.getpid() != self._process or not self._concerns(arguments):
            return
        self._inside = True
        self.count += 1
        if self._command.watch:
            self.record()
        if self.count == self._command.kill_before:
            os.kill(os.getpid(), signal.SIGKILL)
        self._inside = False

    def record(self) -> None:
        """Records the visible state and the space in use."""
        self.kilobytes = max(self.kilobytes, kilobytes_in_use(self._folder))
        if (state := visible_state(self._folder)) not in self.states[-1:]:
            self.states.append(state)

    def _concerns(self, arguments: tuple) -> bool:
        paths = [os.fspath(each) for each in arguments if isinstance(each, str | bytes | os.PathLike)]
        # Names relative to an open directory come from the removal of a tree.
        return any(os.fsdecode(path).startswith(self._folder) or not os.path.isabs(path) for path in paths)


def kilobytes_in_use(folder: str) -> int:
    found = os.statvfs(folder)
    return (found.f_blocks - found.f_bfree) * found.f_frsize // 1024


def serve_requests() -> None:
    """Forks the commands of each line of standard input."""
    import_everything()
    for line in sys.stdin:
        started = [start(each) for each in json.loads(line)]
        print(json.dumps([finish(*each) for each in started]), flush=True)


def import_everything() -> None:
    """Imports what commands need without running any operation of TensorFlow, whose threads a fork would lose."""
    import tensorflow_text  # noqa: F401

    from tf_transformer import data, decoding, export, importing, training, workdir

    for package in (data, decoding, export, importing, training, workdir):
        for name in package.__all__:
            getattr(package, name)


def start(request: dict) -> tuple[int, pathlib.Path | Outcome]:
    """Forks a command: its process id, and the folder for what it reports. Other requests are done at once."""
    if "mount" in request:
        return 0, mount(request["mount"], request["kilobytes"], request["content"])
    if "inspect" in request:
        hidden = hidden_entries(pathlib.Path(request["inspect"]))
        return 0, Outcome(0, "\n".join(hidden), states=[visible_state(request["inspect"])])
    command = Command(**request)
    reports = pathlib.Path(f"{command.folder}.reports-{time.monotonic_ns()}")
    reports.mkdir()
    child = os.fork()
    if child == 0:
        run_child(command, reports)
    return child, reports


def mount(folder: str, kilobytes: int, content: str) -> Outcome:
    options = ["-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder]
    done = subprocess.run(["mount", *options], capture_output=True, text=True)
    if done.returncode == 0:
        shutil.copytree(content, folder, dirs_exist_ok=True)
    return Outcome(done.returncode, done.stderr, kilobytes=kilobytes_in_use(folder))


def finish(child: int, reports: pathlib.Path | Outcome) -> dict:
    """The outcome of what was started."""
    if isinstance(reports, Outcome):
        return dataclasses.asdict(reports)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    text = (reports / "text").read_text(encoding="utf-8", errors="replace")
    report = (reports / "report.json").read_text()
    found = json.loads(report) if report else {}
    shutil.rmtree(reports)
    return dataclasses.asdict(Outcome(code, text, **found))


def run_child(command: Command, reports: pathlib.Path) -> None:
    from tf_transformer.pipelines.cli import main

    redirect(reports)
    set_up(command)
    hook = Operations(command)
    report = os.open(reports / "report.json", os.O_WRONLY | os.O_CREAT)
    sys.addaudithook(hook)
    code = 1
    try:
        code = main(command.argv)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)
        found = {"operations": hook.count, "states": hook.states, "kilobytes": hook.kilobytes}
        os.write(report, json.dumps(found).encode())
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def redirect(reports: pathlib.Path) -> None:
    """Lets standard input be empty, and standard output and error go to a file."""
    text = os.open(reports / "text", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(text, 1)
    os.dup2(text, 2)


def set_up(command: Command) -> None:
    """The limits, temporary files and clock of a command."""
    import tempfile

    temporary = pathlib.Path(command.folder, "tmp")
    temporary.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    if command.file_bytes is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if command.fatal else signal.SIG_IGN)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (command.file_bytes, hard))
    if command.clock:
        now, reads = time.time(), iter(range(10**9))
        time.time = lambda: now - command.clock * next(reads)
        time.time_ns = lambda: int(time.time() * 1e9)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        serve_requests()
