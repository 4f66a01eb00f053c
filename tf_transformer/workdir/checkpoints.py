"""Checkpoints on disk: directories that are complete and verified, or absent.

    step-00000100/
        model.safetensors      the weights, by variable path
        training.safetensors   optimizer and other state of the run; absent if only the model is saved
        checkpoint.json        step, state needed to resume, size and SHA-256 of both files

A checkpoint is written atomically: a process killed at any moment leaves the old or the new one.
"""

import contextlib
import hashlib
import json
import logging
import math
import os
import pathlib
import re
import reprlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from tf_transformer import _files
from tf_transformer._files import sha256_of_file, write_json

FORMAT = 1
MODEL, TRAINING, INFO = "model.safetensors", "training.safetensors", "checkpoint.json"
AVERAGE = "average"
_PIECE_NUMBERS = 16 * 2**20
_STEP = re.compile(r"step-(\d{8,})")

logger = logging.getLogger(__name__)


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged or of another model."""


def step_directory(step: int) -> str:
    """The name of the checkpoint of an update: `step-00000100`."""
    return f"step-{step:08d}"


def save_checkpoint(
    path: str | os.PathLike,
    model: dict[str, np.ndarray],
    training: dict[str, np.ndarray] | None = None,
    *,
    step: int,
    **info: Any,
) -> pathlib.Path:
    """Write a checkpoint to the directory `path`, replacing an existing one.

    Args:
        model: weights by name.
        training: further arrays by name, needed only to resume training.
        step: updates done.
        **info: JSON-able facts to keep, such as the data's position and the metrics.
    """
    path = pathlib.Path(path)
    try:
        with _files.atomic_directory(path) as directory:
            _write_tensors(directory / MODEL, model)
            if training is not None:
                _write_tensors(directory / TRAINING, training)
            _write_info(directory, {"format": FORMAT, "step": int(step), **info})
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise OSError(f"The checkpoint {path} could not be written ({reason}). Earlier ones are unchanged.") from error
    return path


def verify_checkpoint(path: str | os.PathLike) -> dict:
    """checkpoint.json, after a check of the sizes and checksums of all files; CheckpointError if one differs."""
    path = pathlib.Path(path)
    info = read_info(path)
    for name, expected in info["files"].items():
        try:
            _verify_file(path / name, expected)
        except OSError as error:
            raise CheckpointError(f"{path / name}: expected a file that can be read. Received: {error}.") from error
    return info


def _verify_file(file: pathlib.Path, expected: dict) -> None:
    size = file.stat().st_size if file.is_file() else None
    if size != expected["size"]:
        raise CheckpointError(
            f"{file}: expected {expected['size']} bytes, as were written. Received: {size}; it is damaged."
        )
    if sha256_of_file(file) != expected["sha256"]:
        raise CheckpointError(
            f"{file}: expected the SHA-256 of what was written. Received: another one; it is damaged."
        )


def read_info(path: str | os.PathLike) -> dict:
    """checkpoint.json, verified by itself: the big files are not read."""
    file = pathlib.Path(path) / INFO
    try:
        info = json.loads(file.read_text(encoding="utf-8"))
        written = info.pop("sha256")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CheckpointError(f"Expected a checkpoint. Received: {path}, which has no {INFO}.") from error
    except OSError as error:
        raise CheckpointError(f"{file}: expected a file that can be read. Received: {error}.") from error
    except (ValueError, KeyError, AttributeError, RecursionError) as error:
        reason = reprlib.repr(error)
        raise CheckpointError(
            f"{file}: expected the JSON of a checkpoint. Received: {reason}; it is damaged."
        ) from error
    if written != _info_digest(info):
        raise CheckpointError(
            f"{file}: expected the SHA-256 of what was written. Received: another one; it is damaged."
        )
    version = info.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise CheckpointError(
            f"Expected a checkpoint of format {FORMAT} or lower. Received: {path} of format {version}. Upgrade "
            "tf-transformer."
        )
    if not isinstance(version, int) or not isinstance(info.get("step"), int) or not _are_files(info.get("files")):
        raise CheckpointError(
            f"{file}: expected `format`, `step` and `files` as `train` writes them. Received: others; it is damaged."
        )
    return info


def _are_files(files: Any) -> bool:
    """Return whether this is a description of the files of a checkpoint, and of no others."""
    return (
        isinstance(files, dict)
        and {MODEL} <= files.keys() <= {MODEL, TRAINING}
        and all(isinstance(facts, dict) and facts.keys() >= {"size", "sha256"} for facts in files.values())
    )


class ModelTensors(Mapping[str, np.ndarray]):
    """The weights of a checkpoint by name, each read anew whenever it is used. Verify the checkpoint first.

    The file is closed again each time, and after each part of a large tensor: it is mapped into memory while it is
    open, and what was read would stay there.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self._file = pathlib.Path(path) / MODEL
        with _named_errors(self._file), safetensors.safe_open(self._file, framework="numpy") as opened:
            self._shapes = {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118

    def __getitem__(self, name: str) -> np.ndarray:
        shape = self._shapes[name]
        rows = max(1, _PIECE_NUMBERS // max(1, math.prod(shape[1:])))
        first = self._rows(name, 0, rows)
        _check_floating(self._file, name, first)
        if first.shape == shape:
            return first
        tensor = np.empty(shape, first.dtype)
        tensor[:rows] = first
        for start in range(rows, shape[0], rows):
            tensor[start : start + rows] = self._rows(name, start, rows)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def _rows(self, name: str, start: int, rows: int) -> np.ndarray:
        """Some rows of a tensor; of a scalar, all of it."""
        with _named_errors(self._file), safetensors.safe_open(self._file, framework="numpy") as opened:
            if not self._shapes[name]:
                return opened.get_tensor(name)
            return opened.get_slice(name)[start : min(start + rows, self._shapes[name][0])]


def load_model_tensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """The weights of a checkpoint, by name. Verify it first."""
    file = pathlib.Path(path) / MODEL
    tensors = _read_tensors(file)
    for name, tensor in tensors.items():
        _check_floating(file, name, tensor)
    return tensors


def _check_floating(file: pathlib.Path, name: str, tensor: np.ndarray) -> None:
    if tensor.dtype.kind in "biu":
        raise CheckpointError(f"{file}: expected weights of a floating type. Received: {name!r:.99} {tensor.dtype}.")


def load_training_tensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """The further state of a checkpoint that training resumes from, by name. Verify it first."""
    return _read_tensors(pathlib.Path(path) / TRAINING)


def list_checkpoints(directory: str | os.PathLike) -> list[pathlib.Path]:
    """The numbered checkpoints of a directory, oldest first. They may still be damaged."""
    directory = pathlib.Path(directory)
    if not directory.is_dir():
        return []
    found = [path for path in directory.iterdir() if path.is_dir() and _STEP.fullmatch(path.name)]
    return sorted(found, key=_step_of)


def _step_of(path: pathlib.Path) -> int:
    return int(path.name.removeprefix("step-"))


def is_resumable(path: pathlib.Path) -> bool:
    """Return whether a checkpoint contains, or contained before it was damaged, the state to resume training."""
    try:
        return (path / TRAINING).exists() or TRAINING in read_info(path)["files"]
    except CheckpointError:
        return True


def latest_intact(directory: str | os.PathLike, resumable: bool = False) -> pathlib.Path | None:
    """The newest complete checkpoint, with a warning for each damaged one; None if there are no checkpoints.

    If all checkpoints are damaged, CheckpointError is raised: restarting silently would lose the run.

    Args:
        resumable: whether to skip checkpoints that contain only the model.
    """
    candidates = list_checkpoints(directory)
    if resumable:
        candidates = [path for path in candidates if is_resumable(path)]
    for path in reversed(candidates):
        try:
            verify_checkpoint(path)
            return path
        except CheckpointError as error:
            logger.warning("%s Using the checkpoint before it.", error)
    if candidates:
        raise CheckpointError(
            f"Expected an intact checkpoint in {directory}. Received: {len(candidates)}, all damaged. Restore one from "
            "a backup, or train in a new directory."
        )
    return None


def prune_checkpoints(directory: str | os.PathLike, keep: int) -> None:
    """Remove all numbered checkpoints but the last `keep`."""
    for path in list_checkpoints(directory)[:-keep]:
        _files.remove_directory(path)


def set_aside_after(directory: str | os.PathLike, step: int) -> None:
    """Rename the numbered checkpoints of later steps to `step-00000100.aside`, which nothing reads or removes.

    A run that resumes from an earlier step reaches theirs again. Until then they would count as its newest checkpoints,
    and valid ones would be removed in their place.
    """
    for path in list_checkpoints(directory):
        if _step_of(path) > step:
            aside = path.with_name(f"{path.name}.aside")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
            logger.warning(
                "%s is newer than the checkpoint the run resumes from: it is kept as %s, which may be removed.",
                path,
                aside.name,
            )


def _write_tensors(file: pathlib.Path, tensors: dict[str, np.ndarray]) -> None:
    try:
        safetensors.numpy.save_file({name: np.asarray(value, order="C") for name, value in tensors.items()}, file)
    except safetensors.SafetensorError as error:
        raise OSError(f"{file.name}: {error}") from error


def _read_tensors(file: pathlib.Path) -> dict[str, np.ndarray]:
    with _named_errors(file):
        return safetensors.numpy.load_file(file)


@contextlib.contextmanager
def _named_errors(file: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except (OSError, safetensors.SafetensorError, ValueError, LookupError, TypeError) as error:
        reason = str(error)[:200]
        raise CheckpointError(f"{file}: expected a file that can be read. Received: {reason}.") from error


def _write_info(directory: pathlib.Path, info: dict) -> None:
    written = sorted(directory.iterdir())
    files = {file.name: {"size": file.stat().st_size, "sha256": sha256_of_file(file)} for file in written}
    info = json.loads(json.dumps({**info, "files": files}))
    write_json(directory / INFO, {**info, "sha256": _info_digest(info)})


def _info_digest(info: dict) -> str:
    return hashlib.sha256(json.dumps(info, sort_keys=True).encode()).hexdigest()
