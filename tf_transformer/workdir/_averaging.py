"""Checkpoint averaging (section 6.1): the mean of the last checkpoints, itself a checkpoint."""

import logging
import pathlib

import numpy as np

from tf_transformer.workdir import checkpoints
from tf_transformer.workdir._workdir import Workdir
from tf_transformer.workdir.checkpoints import CheckpointError

logger = logging.getLogger(__name__)


def average_last(workdir: Workdir, last: int | None = None) -> pathlib.Path:
    """Average the last checkpoints of a run into WORKDIR/checkpoints/average.

    Args:
        workdir: work directory of the run.
        last: number of checkpoints; None: that of the run's configuration. Fewer are averaged if fewer exist.
    """
    last = workdir.config.training.average_last if last is None else last
    if last < 1:
        raise ValueError(f"Expected at least 1 checkpoint to average. Received: {last}.")
    paths = _trained(checkpoints.list_checkpoints(workdir.checkpoints))
    if not paths:
        raise CheckpointError(f"Expected checkpoints to average in {workdir.path}. Received: none. Train first.")
    if len(paths) < last:
        logger.warning("Expected %d checkpoints. Received: %d. Averaging those.", last, len(paths))
    return average_checkpoints(paths[-last:], workdir.checkpoints / checkpoints.AVERAGE)


def _trained(paths: list[pathlib.Path]) -> list[pathlib.Path]:
    """Drop step 0, which `import` wrote, if there are other checkpoints: it is not a result of training."""
    return [path for path in paths if path.name != checkpoints.step_directory(0)] or paths


def average_checkpoints(paths: list[pathlib.Path], output: pathlib.Path) -> pathlib.Path:
    """Write the mean of the models in `paths`, with equal weights.

    Rejected: a damaged checkpoint, one of another model or run, one with a weight that is not finite.
    """
    infos = [checkpoints.verify_checkpoint(path) for path in paths]
    for path, info in zip(paths, infos):
        if info.get("run") != infos[0].get("run"):
            raise CheckpointError(
                f"Expected checkpoints of one run. Received: {path}, of another run than {paths[0]}. Remove "
                "one of them."
            )
    total: dict[str, np.ndarray] = {}
    for path in paths:
        tensors = checkpoints.load_model_tensors(path)
        _check(path, tensors, paths[0], total)
        for name, tensor in tensors.items():
            total[name] = total.get(name, 0.0) + tensor.astype("float64")
    mean = {name: (tensor / len(paths)).astype("float32") for name, tensor in total.items()}
    steps = [info["step"] for info in infos]
    return checkpoints.save_checkpoint(output, mean, step=max(steps), averaged_steps=steps, run=infos[0].get("run"))


def _check(
    path: pathlib.Path, tensors: dict[str, np.ndarray], first: pathlib.Path, total: dict[str, np.ndarray]
) -> None:
    for name in sorted(tensors.keys() | total.keys()) if total else tensors:
        if name not in tensors or (total and name not in total) or (total and tensors[name].shape != total[name].shape):
            raise CheckpointError(
                f"Expected checkpoints of one model. Received: {path}, in which {name} differs from {first}. "
                "Remove one of them."
            )
        if not np.all(np.isfinite(tensors[name])):
            raise CheckpointError(
                f"Expected finite weights. Received: NaN or infinity in {name} of {path}. Remove that checkpoint, or "
                "average fewer."
            )
