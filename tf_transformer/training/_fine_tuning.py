"""Fine-tuning: a new run that starts from the weights of another work directory or of one checkpoint."""

import dataclasses
import logging
import os
import pathlib

from tf_transformer.config import Config
from tf_transformer.data import PreparedDataset
from tf_transformer.workdir import CONFIG, Workdir, checkpoints

logger = logging.getLogger(__name__)


def config_of(init_from: str | os.PathLike, config: Config | None = None) -> Config:
    """The configuration of a run that starts from other weights.

    Args:
        init_from: a work directory, or a checkpoint in one.
        config: the recipe, of which everything but the architecture is taken; None: that of `init_from`.
    """
    origin = _origin(init_from)[0].config
    return origin if config is None else dataclasses.replace(config, model=origin.model)


def initialize_workdir(
    workdir: str | os.PathLike, init_from: str | os.PathLike, config: Config, prepared: PreparedDataset
) -> None:
    """Writes a work directory that contains the weights to start from; does nothing if it exists already.

    The directory is then like one that `import` writes: training starts from its weights, at step 0.

    Args:
        workdir: of the new run.
        init_from: a work directory, whose average, best or last checkpoint is taken, or the path of one checkpoint.
        config: of the new run; its model must have the weights of the origin.
        prepared: the data, which must have been prepared with the tokenizer of the origin.
    """
    workdir = pathlib.Path(workdir)
    if (workdir / CONFIG).is_file():
        return
    origin, checkpoint = _origin(init_from)
    if origin.tokenizers.sha256 != prepared.tokenizers.sha256:
        raise ValueError(
            f"Expected data prepared with the tokenizer of {origin.path}, whose weights the run starts from. "
            f"Received: {prepared.path}, which has another vocabulary. Prepare the data with "
            f"`tf-transformer prepare --tokenizer {origin.path} …`."
        )
    _check_architecture(origin, config)
    tensors = checkpoints.load_model_tensors(checkpoint)
    info = {"tokenizer": {"sha256": origin.tokenizers.sha256}}
    info |= {name: prepared.info[name] for name in ("source_language", "target_language")}
    # The checkpoint first: a directory without its config.json is not a run, and the next start writes it again.
    first = workdir / "checkpoints" / checkpoints.step_directory(0)
    checkpoints.save_checkpoint(first, tensors, step=0, init_from=str(init_from))
    Workdir.create(workdir, dataclasses.replace(config, model=_model_of(origin, config)), origin.tokenizers, info)
    logger.info("A new run in %s, which starts from the weights of %s.", workdir, checkpoint)


def _origin(init_from: str | os.PathLike) -> tuple[Workdir, pathlib.Path]:
    """The work directory and the verified checkpoint that `init_from` means."""
    path = pathlib.Path(init_from)
    if (path / CONFIG).is_file():
        origin = Workdir(path)
        return origin, origin.checkpoint()
    if path.is_dir() and (path.parent.parent / CONFIG).is_file():
        origin = Workdir(path.parent.parent)
        return origin, origin.checkpoint(path.resolve())
    raise ValueError(
        f"Expected a work directory, or a checkpoint such as WORKDIR/checkpoints/best. Received: {path}, which is "
        "neither. Pass what `tf-transformer train --workdir` or `tf-transformer import` wrote."
    )


def _check_architecture(origin: Workdir, config: Config) -> None:
    before, now = _model_of(origin, config).to_dict(), config.model.to_dict()
    vocabulary = {"vocab_size", "target_vocab_size", "tied_embeddings", "pad_id", "bos_id", "eos_id"}
    changed = [name for name in before if before[name] != now[name] and name not in vocabulary]
    if changed:
        raise ValueError(
            f"Expected the architecture of {origin.path}, whose weights the run starts from. Received: "
            + ", ".join(f"model.{name}={now[name]!r} instead of {before[name]!r}" for name in changed)
            + ". Leave these settings out; only dropout may change."
        )


def _model_of(origin: Workdir, config: Config):
    """The model of the origin with the new run's dropout."""
    fields = [field.name for field in dataclasses.fields(config.model) if "dropout" in field.name]
    return dataclasses.replace(origin.config.model, **{name: getattr(config.model, name) for name in fields})
