"""Apache Beam, an optional dependency: its options, its runs, and the files of its file systems."""

import contextlib
import dataclasses
import hashlib
import logging
import os
import pathlib
import pickle
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from tf_transformer._files import hidden_directory

if TYPE_CHECKING:
    import apache_beam as beam

_BUFFER = 4 << 20
_LINE_FEED = 10
_DIRECT = "DirectRunner"
# How the direct runner reports that one of its processes has ended.
_LOST = "Channel closed prematurely"
_WHERE = re.compile(r" \[while running [^\n]*")
_ERROR_LINE = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$", re.M)


class BeamError(ValueError):
    """A Beam pipeline that failed, or Apache Beam that is not installed."""


@dataclasses.dataclass(frozen=True)
class BeamJobs:
    """Runs of Beam pipelines with the same options, and a directory that all their workers can write to.

    Attributes:
        flags: Beam's pipeline options, such as `--runner=FlinkRunner`.
        scratch: directory for intermediate files, on a file system that Beam knows.
    """

    flags: tuple[str, ...]
    scratch: str

    @classmethod
    @contextlib.contextmanager
    def open(cls, output: str | os.PathLike, options: str = "", workers: int | None = None) -> Iterator["BeamJobs"]:
        """Jobs with a scratch directory beside `output`, which is removed at the end of the block.

        Args:
            output: what the jobs are to write.
            options: pipeline options in one line; the two leading dashes of each may be left out.
            workers: processes of the direct runner, which runs if no other is named; None for one per core.
        """
        flags = pipeline_flags(options, workers)
        _file_systems(flags)
        output = os.fspath(output)
        if is_local(output):
            path = pathlib.Path(os.path.realpath(output))
            with hidden_directory(path.parent, f"{path.name}.scratch") as scratch:
                yield cls(flags, str(scratch))
            return
        scratch_path = f"{output.rstrip('/')}.scratch-{secrets.token_hex(4)}"
        try:
            yield cls(flags, scratch_path)
        finally:
            remove_directory(scratch_path)

    def collect(self, build: Callable[["beam.Pipeline"], "beam.PCollection"]) -> list:
        """Run the pipeline that `build` adds to; return the elements of the collection that it returns."""
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        result = join(self.scratch, f"result-{secrets.token_hex(4)}")
        # Beam's check of annotations rejects protocols; ours are checked by mypy.
        options = PipelineOptions([*self.flags, "--no_pipeline_type_check"])
        try:
            with _quiet(self.flags), _temporary_files(self.scratch):
                pipeline = beam.Pipeline(options=options)
                _ = build(pipeline) | beam.combiners.ToList() | "save" >> beam.Map(_Save(result))
                pipeline.run().wait_until_finish()
            return pickle.loads(read_bytes(result))
        except Exception as error:
            raise BeamError(f"Expected the Beam pipeline to finish. Received: {_reason(error)}") from error


def pipeline_flags(options: str = "", workers: int | None = None) -> tuple[str, ...]:
    """Beam's pipeline options; without a runner, the direct runner in several processes."""
    flags = [word if word.startswith("-") else f"--{word}" for word in options.split()]
    given = {flag.partition("=")[0] for flag in flags}
    if any(flag.startswith("--runner=") and not flag.endswith(_DIRECT) for flag in flags):
        return tuple(flags)
    workers = workers or os.cpu_count() or 1
    defaults = {
        "--runner": _DIRECT,
        "--direct_running_mode": "multi_processing" if workers > 1 else "in_memory",
        "--direct_num_workers": str(workers),
    }
    flags += [f"{name}={value}" for name, value in defaults.items() if name not in given]
    # These pipelines have no triggers, but with this flag the direct runner does not download and run Prism, a program
    # that does not know the other two.
    return (*flags, "--allow_unsafe_triggers")


def _file_systems(flags: Sequence[str] = ()) -> Any:
    """Beam's `FileSystems`, with the pipeline options that some of them need."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # Beam warns that the clients of Google's services are missing
    try:
        from apache_beam.io.filesystems import FileSystems
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError as error:
        raise BeamError(
            f"Expected Apache Beam for --engine beam. Received: {error}. Install it with "
            "`pip install 'tf_transformer[beam]'`, or leave out --engine."
        ) from error
    finally:
        logging.disable(disabled)
    if flags:
        FileSystems.set_options(PipelineOptions(list(flags)))
    return FileSystems


@contextlib.contextmanager
def _quiet(flags: Sequence[str]) -> Iterator[None]:
    """Discard what the direct runner and its processes print, unless messages for debugging are wanted."""
    if f"--runner={_DIRECT}" not in flags or logging.getLogger("tf_transformer").isEnabledFor(logging.DEBUG):
        yield
        return
    sys.stderr.flush()
    shown, discarded = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(discarded, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(shown, 2)
        os.close(shown)
        os.close(discarded)


@contextlib.contextmanager
def _temporary_files(scratch: str) -> Iterator[None]:
    """Remove the temporary directories that Beam leaves behind in this process."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(dir=scratch if is_local(scratch) else None) as directory:
        tempfile.tempdir = directory
        try:
            yield
        finally:
            tempfile.tempdir = before


@dataclasses.dataclass(frozen=True)
class _Save:
    """Save a result where the process that started the pipeline finds it."""

    path: str

    def __call__(self, values: list) -> None:
        write_bytes(self.path, pickle.dumps(values))


def _reason(error: Exception) -> str:
    """The error of a worker, which arrives as a text with its traceback."""
    text = str(error).replace("\\n", "\n")
    if _LOST in text:
        return (
            "a worker process ended: it was killed, perhaps for lack of memory. Run the command again, with fewer "
            "--workers if memory is short."
        )
    text = _WHERE.sub("", text)
    found = [match for match in _ERROR_LINE.finditer(text) if match[1] not in ("RuntimeError", "_InactiveRpcError")]
    if found:
        return found[-1][2].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def is_local(path: str) -> bool:
    """Whether a path is one of this machine, not an address such as `gs://bucket/file`."""
    return "://" not in path


def join(directory: str, *names: str) -> str:
    """The path of a file in a directory of any file system."""
    return "/".join([directory.rstrip("/"), *names])


def open_file(path: str) -> BinaryIO:
    """Open a file for reading, as it is stored: what is compressed stays so."""
    from apache_beam.io.filesystem import CompressionTypes

    return _file_systems().open(path, compression_type=CompressionTypes.UNCOMPRESSED)


@contextlib.contextmanager
def create_file(path: str) -> Iterator[BinaryIO]:
    """Open a stream whose content becomes the file `path` at the end of the block; the last writer wins."""
    from apache_beam.io.filesystem import BeamIOError, CompressionTypes

    systems = _file_systems()
    folder, _, name = path.rpartition("/")
    hidden = f"{folder}/.{name}.writing-{secrets.token_hex(4)}" if folder else f".{name}.writing-{secrets.token_hex(4)}"
    with systems.create(hidden, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
        yield stream
    try:
        systems.rename([hidden], [path])
    except BeamIOError:
        # HDFS does not replace files.
        if not systems.exists(path):
            raise
        systems.delete([path])
        systems.rename([hidden], [path])


def read_bytes(path: str) -> bytes:
    """The content of a file."""
    with open_file(path) as stream:
        return stream.read()


def write_bytes(path: str, data: bytes) -> None:
    """Write a file; it appears complete."""
    with create_file(path) as stream:
        stream.write(data)


def upload(local: str | os.PathLike, path: str) -> None:
    """Copy a file of this machine to any file system."""
    with open(local, "rb") as source, create_file(path) as stream:
        shutil.copyfileobj(source, stream, _BUFFER)


def file_exists(path: str) -> bool:
    return _file_systems().exists(path)


def find_files(pattern: str) -> list[str]:
    """The files that a glob matches, sorted; a name without wildcards stands for itself."""
    if not re.search(r"[*?\[]", pattern) or file_exists(pattern):
        return [pattern]
    (found,) = _file_systems().match([pattern])
    return sorted(each.path for each in found.metadata_list)


def remove_file(path: str) -> None:
    """Remove a file if it exists."""
    if file_exists(path):
        _file_systems().delete([path])


def remove_directory(path: str) -> None:
    """Remove a directory of another file system with all it contains; errors are ignored."""
    with contextlib.suppress(Exception):  # each file system has errors of its own
        # Storage without directories takes a name with a slash for all names that begin with it.
        _file_systems().delete([f"{path.rstrip('/')}/"])


@dataclasses.dataclass(frozen=True)
class LineIndex:
    """Facts of a text file that let its lines be read from several places.

    Attributes:
        size, sha256: of the file.
        lines: their number; a last line without a line feed counts.
        step: lines between two offsets.
        offsets: places of the lines 0, step, 2 * step, … in bytes.
    """

    size: int
    sha256: str
    lines: int
    step: int
    offsets: tuple[int, ...]


def index_lines(path: str, step: int) -> LineIndex:
    """Read a file once for its index."""
    digest, lines, position, offsets, last = hashlib.sha256(), 0, 0, [0], b"\n"
    with open_file(path) as stream:
        while block := stream.read(_BUFFER):
            digest.update(block)
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _LINE_FEED)
            first = step - lines % step - 1
            offsets += (position + 1 + ends[first::step]).tolist()
            lines, position, last = lines + len(ends), position + len(block), block[-1:]
    if last != b"\n":
        lines += 1
    elif len(offsets) > 1 and offsets[-1] == position:
        offsets.pop()
    return LineIndex(position, digest.hexdigest(), lines, step, tuple(offsets))
