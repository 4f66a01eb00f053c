"""Versions of a model, and which of them are served: by default the newest that loads.

`MODEL_BASE/<integer>/` is listed again and again. A new version is loaded next to the old one and replaces it when it
is ready; requests in progress keep the version they started with. A version that does not load is rejected and
remembered, and tried again only after its files have changed.
"""

import dataclasses
import gc
import logging
import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from tf_transformer._model_versions import numbered_entries
from tf_transformer.export.serving._errors import BadRequest, UnknownModel

if TYPE_CHECKING:
    from tf_transformer.export.serving._loading import ServedModel

logger = logging.getLogger(__name__)

# States and codes of TensorFlow Serving's GetModelStatusResponse.
LOADING, AVAILABLE, END = "LOADING", "AVAILABLE", "END"


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """A model to serve: its name, its directory, and which of its versions.

    Attributes:
        name: The name in requests.
        base: `MODEL_BASE`, with one directory per version.
        latest: Number of versions to serve, the newest that load; None: all.
        versions: The versions to choose from; None: any.
        labels: Versions by label, for requests with `/labels/<label>`.
    """

    name: str
    base: pathlib.Path
    latest: int | None = 1
    versions: frozenset[int] | None = None
    labels: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class VersionStatus:
    """The state of a version, in the words of TensorFlow Serving."""

    version: int
    state: str
    error_code: str = "OK"
    error_message: str = ""


class ModelVersions:
    """The versions of one model. `refresh` is for one thread; the other methods are for any.

    Args:
        source: A ModelSource.
        load: Called with (directory, version); returns the loaded model or raises.
    """

    def __init__(self, source: ModelSource, load: "Callable[[pathlib.Path, int], ServedModel]") -> None:
        self.source = source
        self.base = source.base
        self.name = source.name
        self._load = load
        self._serving: dict[int, ServedModel] = {}
        self._statuses: dict[int, VersionStatus] = {}
        self._rejected: dict[int, tuple] = {}
        self._retired = False

    def refresh(self) -> bool:
        """List the directory once and serve the newest versions that load. Return whether they have changed."""
        if self._retired:
            # TensorFlow's functions refer to each other in cycles, which keep the old version's weights in memory.
            # Not at the swap itself: requests were still in progress then.
            self._retired = False
            gc.collect()
        before, selected = self._serving, {}
        for version, directory in self._on_disk():
            if self.source.versions is not None and version not in self.source.versions:
                continue
            model = before.get(version) or self._try(version, directory)
            if model is not None:
                selected[version] = model
            if len(selected) == self.source.latest:
                break
        if not selected or selected.keys() == before.keys():
            return False
        self._serving = selected
        for version in before.keys() - selected.keys():
            self._set_status(version, END)
            self._retired = True
        return True

    def get(self, version: int | None = None, label: str | None = None) -> "ServedModel":
        """The loaded model of a version, of a label, or the newest."""
        serving = self._serving
        if label is not None:
            if label not in self.source.labels:
                raise BadRequest(f"Unrecognized servable version label: {label}")
            version = self.source.labels[label]
        if version is None and serving:
            return serving[max(serving)]
        if version in serving:
            return serving[version]
        wanted = f"Latest({self.name})" if version is None else f"Specific({self.name}, {version})"
        numbers = ", ".join(map(str, sorted(serving))) or "none"
        raise UnknownModel(f"Servable not found for request: {wanted}; versions of {self.name!r} served: {numbers}")

    @property
    def available(self) -> bool:
        """True if any version is served."""
        return bool(self._serving)

    def statuses(self, version: int | None = None) -> list[VersionStatus]:
        """The status of one version or of all, newest first."""
        known = dict(self._statuses)
        if version is not None:
            known = {number: status for number, status in known.items() if number == version}
        if not known:
            wanted = f"{'any versions' if version is None else f'version {version}'} of model {self.name}"
            raise UnknownModel(f"Could not find {wanted}")
        return [known[number] for number in sorted(known, reverse=True)]

    def _on_disk(self) -> list[tuple[int, pathlib.Path]]:
        """Version directories, newest first."""
        try:
            entries = numbered_entries(self.base)
        except OSError as error:
            logger.warning("cannot look into %s: %s", self.base, error)
            return []
        # A link that leads nowhere, or to itself, is a version too: one that fails to load.
        return [(n, path) for n, path in reversed(entries.items()) if path.is_dir() or path.is_symlink()]

    def _try(self, version: int, directory: pathlib.Path) -> "ServedModel | None":
        """The loaded version, or None if it does not load or did not load before and is unchanged."""
        files = _files(directory)
        if self._rejected.get(version) == files:
            return None
        self._set_status(version, LOADING)
        try:
            model = self._load(directory, version)
        except Exception as error:  # whatever is wrong with a new version, the old one remains in service
            self._reject(version, files, error)
            return None
        self._rejected.pop(version, None)
        self._serving = {**self._serving, version: model}
        self._set_status(version, AVAILABLE)
        logger.info("serving %s version %d from %s", self.name, version, directory)
        return model

    def _reject(self, version: int, files: tuple, error: Exception) -> None:
        self._rejected[version] = files
        message = f"{type(error).__name__}: {error}"
        self._set_status(version, END, "INVALID_ARGUMENT", message)
        serving = ", ".join(map(str, sorted(self._serving)))
        rest = f"still serving version {serving}" if serving else "nothing is served yet"
        logger.error("rejected %s version %d (%s); %s", self.name, version, message.split("\n")[0], rest)

    def _set_status(self, version: int, state: str, code: str = "OK", message: str = "") -> None:
        self._statuses[version] = VersionStatus(version, state, code, message)


def _files(directory: pathlib.Path) -> tuple:
    """Names, sizes and times of the files: what distinguishes a changed directory from an unchanged one."""
    found = []
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            try:
                stat = os.lstat(path)
            except FileNotFoundError:
                continue  # it is being written or removed at this moment
            found.append((path, stat.st_size, stat.st_mtime_ns))
    return tuple(sorted(found))
