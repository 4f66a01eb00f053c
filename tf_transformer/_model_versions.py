"""Version directories of a served model, by the rules of TensorFlow Serving: `MODEL_BASE/<integer>/saved_model.pb`."""

import os
import pathlib

GRAPH = "saved_model.pb"
_LARGEST = 2**63 - 1  # TensorFlow Serving reads version numbers as int64.


def is_saved_model(directory: str | os.PathLike) -> bool:
    """Return whether a directory holds a SavedModel; False for one that cannot be read, such as a loop of links."""
    return os.path.isfile(os.path.join(directory, GRAPH))


def numbered_entries(base: str | os.PathLike) -> dict[int, pathlib.Path]:
    """Everything in MODEL_BASE whose name is a version number, complete or not, by number in ascending order.

    Raises:
        OSError: if MODEL_BASE cannot be listed.
    """
    base = pathlib.Path(base)
    names = [name for name in os.listdir(base) if name.isascii() and name.isdecimal() and int(name) <= _LARGEST]
    return {int(name): base / name for name in sorted(names, key=lambda name: (int(name), name))}


def list_versions(base: str | os.PathLike) -> dict[int, pathlib.Path]:
    """The versions in MODEL_BASE that hold a SavedModel, in ascending order; empty where there is no MODEL_BASE."""
    try:
        entries = numbered_entries(base)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {number: path for number, path in entries.items() if is_saved_model(path)}


def newest_version(path: str | os.PathLike) -> pathlib.Path:
    """`path` if it is a SavedModel itself, else the newest version in it."""
    path = pathlib.Path(path)
    if is_saved_model(path):
        return path
    versions = list_versions(path)
    if not versions:
        raise ValueError(
            f"Expected a SavedModel, or a directory with versions of one. Received: {path}, which has no {GRAPH} nor a "
            "numbered directory with one. Give what `tf-transformer export --output` wrote."
        )
    return versions[max(versions)]


def next_version(base: str | os.PathLike) -> int:
    """One more than the highest number taken in MODEL_BASE, by anything; 1 where there is none."""
    return max(numbered_entries(base), default=0) + 1
