"""The mean of the last checkpoints (section 6.1): one more checkpoint, which every command takes."""

import logging
import pathlib

import numpy as np

from tf_transformer.workdir import checkpoints
from tf_transformer.workdir._workdir import Workdir
from tf_transformer.workdir.checkpoints import CheckpointError

logger = logging.getLogger(__name__)


def average_last(workdir: Workdir, last: int | None = None) -> pathlib.Path:
    """Averages the last checkpoints of a run into WORKDIR/checkpoints/average.

    Args:
        workdir: the run's.
        last: number of checkpoints; None: that of the run's configuration. Fewer are averaged if fewer exist.
    """
    last = workdir.config.training.average_last if last is None else last
    if last < 1:
        raise ValueError(f"The number of checkpoints to average must be at least 1, not {last}.")
    paths = _trained(checkpoints.list_checkpoints(workdir.checkpoints))
    if not paths:
        raise CheckpointError(f"There are no checkpoints to average in {workdir.path}. Train first.")
    if len(paths) < last:
        logger.warning("Expected %d checkpoints. Received: %d. Averaging those.", last, len(paths))
    return average_checkpoints(paths[-last:], workdir.checkpoints / checkpoints.AVERAGE)


def _trained(paths: list[pathlib.Path]) -> list[pathlib.Path]:
    """Without step 0, which `import` wrote, where there are others: it is no checkpoint of the run's last ones."""
    return [path for path in paths if path.name != checkpoints.step_directory(0)] or paths


def average_checkpoints(paths: list[pathlib.Path], output: pathlib.Path) -> pathlib.Path:
    """Write the mean of the models in `paths`, with equal weights.

    Rejected: a damaged checkpoint, one of another model or run, one with a weight that is not finite.
    """
    infos = [checkpoints.verify_checkpoint(path) for path in paths]
    for path, info in zip(paths, infos):
        if info.get("run") != infos[0].get("run"):
            raise CheckpointError(f"{path} is of another run than {paths[0]}. Average checkpoints of one run.")
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
                f"{path} is of another model than {first}: {name} differs. Average checkpoints of one run."
            )
        if not np.all(np.isfinite(tensors[name])):
            raise CheckpointError(
                f"{path} has weights that are not finite, in {name}. Remove that checkpoint, or average fewer."
            )
