"""Loaded versions of a model, and which one is served: the newest that loads.

`MODEL_BASE/<integer>/` is looked at again and again. A new version is loaded beside the old one and takes over
only when it is ready; requests that are under way keep the version they began with. A version that does not load
is rejected and remembered, and tried again only after its files have changed.
"""

import dataclasses
import gc
import json
import logging
import pathlib
import subprocess
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizers' ops

from tf_transformer._model_versions import numbered_entries
from tf_transformer.export._serving_assets import read_warmup_requests
from tf_transformer.export.inspection import Problem, checksum_problems, read_graph
from tf_transformer.export.serving._rest import BadRequest

logger = logging.getLogger(__name__)


class BadModel(ValueError):
    """Raised for a SavedModel that cannot be served: damaged, without signatures, or failing its warm-up."""


class ServedSignature:
    """A signature as a function from arrays to arrays.

    Attributes:
        inputs, outputs: TensorSpecs by name.
        mergeable: Whether requests may share a call: dimension 0 is the batch everywhere, and no other size of an
            output depends on what else is in the batch.
    """

    def __init__(self, name: str, function):
        self.name = name
        self.inputs = dict(function.structured_input_signature[1])
        self.outputs = dict(function.structured_outputs)
        self.mergeable = all(_has_free_batch(each.shape) for each in (*self.inputs.values(), *self.outputs.values()))
        self.mergeable &= all(each.shape[1:].is_fully_defined() for each in self.outputs.values() if self.mergeable)
        self._function = function

    def __call__(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs the signature; what the model rejects is a BadRequest."""
        tensors = {name: tf.constant(tensors[name], spec.dtype) for name, spec in self.inputs.items()}
        try:
            return {name: each.numpy() for name, each in self._function(**tensors).items()}
        except (tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError, tf.errors.OutOfRangeError) as error:
            raise BadRequest(error.message) from error


class ServedModel:
    """A SavedModel in memory.

    Args:
        directory: `MODEL_BASE/<version>`.
        version: The number of that directory.
        warm_up: Whether to replay `assets.extra/tf_serving_warmup_requests`, if it is there.
    """

    def __init__(self, directory, version: int, warm_up: bool = True):
        self.directory = pathlib.Path(directory)
        self.version = version
        self.signature_defs = self._read_signature_defs()
        # Kept: variables and tables live as long as the object that owns them.
        self._loaded = tf.saved_model.load(str(self.directory), tags=["serve"])
        self.signatures = {name: ServedSignature(name, each) for name, each in self._loaded.signatures.items()}
        if not self.signatures:
            raise BadModel(f"{self.directory} has no signatures: export it with signatures")
        if warm_up:
            self._warm_up()

    def signature(self, name: str) -> ServedSignature:
        """The signature of that name."""
        if name not in self.signatures:
            known = ", ".join(sorted(self.signatures))
            raise BadRequest(f'Serving signature name: "{name}" not found in signature def; there are: {known}')
        return self.signatures[name]

    def _read_signature_defs(self):
        """The SignatureDefs of an undamaged SavedModel."""
        message = read_graph(self.directory)
        problems = [message] if isinstance(message, Problem) else checksum_problems(self.directory)
        if problems is None:
            problems = _damage_seen_from_elsewhere(self.directory)
        if problems:
            raise BadModel(f"{self.directory}: {problems[0].message}")
        return dict(message.meta_graphs[0].signature_def)

    def _warm_up(self):
        count = 0
        for name, tensors in read_warmup_requests(self.directory):
            try:
                self.signature(name)(tensors)
            except (ValueError, KeyError, tf.errors.OpError) as error:
                raise BadModel(f"warm-up request {count} of {self.directory} failed: {error}") from error
            count += 1
        if count:
            logger.info("replayed %d warm-up requests of version %d", count, self.version)


def _damage_seen_from_elsewhere(directory: pathlib.Path) -> list[Problem]:
    """Looks for damage in another process: a damaged graph can crash the one that reads it, and this one serves."""
    command = [sys.executable, "-m", "tf_transformer.pipelines.inspect", str(directory), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return [Problem("damaged", f"it could not be inspected: {reason}")]
    problems = [Problem(**each) for each in json.loads(done.stdout)["problems"]]
    return [problem for problem in problems if problem.kind == "damaged"]


def _has_free_batch(shape: tf.TensorShape) -> bool:
    return shape.rank is not None and shape.rank > 0 and shape[0] is None


# States and codes of TensorFlow Serving's GetModelStatusResponse.
LOADING, AVAILABLE, END = "LOADING", "AVAILABLE", "END"


class UnknownModel(BadRequest):
    """Raised for a model or a version that is not served."""

    status = 404


@dataclasses.dataclass(frozen=True)
class VersionStatus:
    """How a version is doing, in the words of TensorFlow Serving."""

    version: int
    state: str
    error_code: str = "OK"
    error_message: str = ""


class ModelVersions:
    """The versions under one directory. `refresh` is for one thread; the rest is for any.

    Args:
        base: `MODEL_BASE`.
        name: The name of the model in requests.
        load: Called with (directory, version); returns the loaded model or raises.
    """

    def __init__(self, base, name: str, load):
        self.base = pathlib.Path(base)
        self.name = name
        self._load = load
        self._current = None
        self._statuses: dict[int, VersionStatus] = {}
        self._rejected: dict[int, tuple] = {}
        self._retired = False

    def refresh(self) -> bool:
        """Looks at the disk once and serves the newest version that loads. Returns whether that is another one now."""
        if self._retired:
            # TensorFlow's functions refer to each other in circles, which keep the old version's weights in memory.
            # Not at the swap itself: requests were still under way then.
            self._retired = False
            gc.collect()
        for version, directory in self._on_disk():
            if self._current is not None and version == self._current.version:
                return False
            files = _files(directory)
            if self._rejected.get(version) != files and self._try(version, directory, files):
                return True
        return False

    def get(self, name: str, version: int | None = None):
        """The model that answers requests for `name`, in that version or the newest."""
        current = self._current
        if name == self.name and current is not None and version in (None, current.version):
            return current
        wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
        serving = (
            f"version {current.version} of {self.name!r}" if current is not None else f"nothing of {self.name!r} yet"
        )
        raise UnknownModel(f"Servable not found for request: {wanted}; this server serves {serving}")

    def statuses(self, name: str, version: int | None = None) -> list[VersionStatus]:
        """The status of one version or of all, newest first."""
        known = dict(self._statuses) if name == self.name else {}
        if version is not None:
            known = {number: status for number, status in known.items() if number == version}
        if not known:
            wanted = f"version {version} of model {name}" if version is not None else f"any versions of model {name}"
            raise UnknownModel(f"Could not find {wanted}")
        return [known[number] for number in sorted(known, reverse=True)]

    def _on_disk(self) -> list[tuple[int, pathlib.Path]]:
        """Version directories, newest first."""
        try:
            entries = numbered_entries(self.base)
        except OSError as error:
            logger.warning("cannot look into %s: %s", self.base, error)
            return []
        return [(number, path) for number, path in reversed(entries.items()) if path.is_dir()]

    def _try(self, version: int, directory: pathlib.Path, files: tuple) -> bool:
        self._set_status(version, LOADING)
        try:
            model = self._load(directory, version)
        except Exception as error:  # whatever is wrong with a new version, the old one goes on serving
            self._reject(version, files, error)
            return False
        before, self._current = self._current, model
        self._rejected.pop(version, None)
        self._set_status(version, AVAILABLE)
        if before is not None:
            self._set_status(before.version, END)
            self._retired = True
        logger.info("serving %s version %d from %s", self.name, version, directory)
        return True

    def _reject(self, version: int, files: tuple, error: Exception) -> None:
        self._rejected[version] = files
        message = f"{type(error).__name__}: {error}"
        self._set_status(version, END, "INVALID_ARGUMENT", message)
        rest = (
            f"version {self._current.version} goes on serving" if self._current is not None else "nothing is served yet"
        )
        logger.error("rejected %s version %d (%s); %s", self.name, version, message.split("\n")[0], rest)

    def _set_status(self, version: int, state: str, code: str = "OK", message: str = "") -> None:
        self._statuses[version] = VersionStatus(version, state, code, message)


def _files(directory: pathlib.Path) -> tuple:
    """What tells a changed directory from an unchanged one."""
    found = []
    for path in sorted(directory.rglob("*")):
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue  # it is being written or removed at this moment
        found.append((str(path.relative_to(directory)), stat.st_size, stat.st_mtime_ns))
    return tuple(found)
