"""The versions of a model on disk, and the one that is served: the newest that loads.

`MODEL_BASE/<integer>/` is looked at again and again. A new version is loaded beside the old one and takes over
only when it is ready; requests that are under way keep the version they began with. A version that does not load
is refused and remembered, and tried again only after its files have changed.
"""

import dataclasses
import gc
import logging
import pathlib

from tf_transformer.export.rest_request import BadRequest

_log = logging.getLogger(__name__)

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
        self._refused: dict[int, tuple] = {}
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
            if self._refused.get(version) != files and self._try(version, directory, files):
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
            directories = [each for each in self.base.iterdir() if each.name.isascii() and each.name.isdigit()]
        except OSError as error:
            _log.warning("cannot look into %s: %s", self.base, error)
            return []
        return sorted(((int(each.name), each) for each in directories if each.is_dir()), reverse=True)

    def _try(self, version: int, directory: pathlib.Path, files: tuple) -> bool:
        self._set_status(version, LOADING)
        try:
            model = self._load(directory, version)
        except Exception as error:  # whatever is wrong with a new version, the old one goes on serving
            self._refuse(version, files, error)
            return False
        before, self._current = self._current, model
        self._refused.pop(version, None)
        self._set_status(version, AVAILABLE)
        if before is not None:
            self._set_status(before.version, END)
            self._retired = True
        _log.info("serving %s version %d from %s", self.name, version, directory)
        return True

    def _refuse(self, version: int, files: tuple, error: Exception) -> None:
        self._refused[version] = files
        message = f"{type(error).__name__}: {error}"
        self._set_status(version, END, "INVALID_ARGUMENT", message)
        rest = (
            f"version {self._current.version} goes on serving" if self._current is not None else "nothing is served yet"
        )
        _log.error("refused %s version %d (%s); %s", self.name, version, message.split("\n")[0], rest)

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
