"""The work directory of a run: new, resumed, written by `import`, or initialized from other weights (fine-tuning)."""

import dataclasses
import logging
import os
import pathlib
import time

from tf_transformer.config import Config, ModelConfig
from tf_transformer.data import PreparedDataset
from tf_transformer.text import TokenizerPair
from tf_transformer.training._process import LostWorkerError
from tf_transformer.training._run_state import ChangedRunError, check_config, check_dataset, has_begun
from tf_transformer.training._strategies import Worker
from tf_transformer.workdir import CONFIG, Workdir, checkpoints, write_config, write_dataset_info

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
    """Write a work directory that contains the weights to start from; do nothing if it exists and starts from them.

    The directory is then like one that `import` writes: training starts from its weights, at step 0.

    Args:
        workdir: of the new run.
        init_from: a work directory, whose average, best or last checkpoint is taken, or the path of one checkpoint.
        config: of the new run; its model must have the weights of the origin.
        prepared: the data, which must have been prepared with the tokenizer of the origin.
    """
    workdir = pathlib.Path(workdir)
    if (workdir / CONFIG).is_file():
        _check_origin(Workdir(workdir), init_from)
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
    info = {"tokenizer": {"sha256": origin.tokenizers.sha256}, "init_from": os.path.realpath(init_from)}
    info |= {name: prepared.info[name] for name in ("source_language", "target_language")}
    # The checkpoint first: a directory without its config.json is not a run, and the next start writes it again.
    first = workdir / "checkpoints" / checkpoints.step_directory(0)
    checkpoints.save_checkpoint(first, tensors, step=0, init_from=str(init_from))
    Workdir.create(workdir, dataclasses.replace(config, model=_model_of(origin, config)), origin.tokenizers, info)
    logger.info("A new run in %s, which starts from the weights of %s.", workdir, checkpoint)


def _check_origin(existing: Workdir, init_from: str | os.PathLike) -> None:
    """Reject an origin that is not the one an existing work directory was initialized from."""
    recorded = existing.dataset_info.get("init_from")
    if recorded != os.path.realpath(init_from):
        begun = f"was begun from {recorded}" if recorded else "was not begun from other weights"
        raise ChangedRunError(
            f"Expected a new --workdir, or one that was begun from {init_from}. Received: {existing.path}, which "
            f"{begun}. Leave out --init-from to resume it, or use another --workdir."
        )


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


def _model_of(origin: Workdir, config: Config) -> ModelConfig:
    """The model of the origin with the new run's dropout."""
    fields = [field.name for field in dataclasses.fields(config.model) if "dropout" in field.name]
    return dataclasses.replace(origin.config.model, **{name: getattr(config.model, name) for name in fields})


def with_vocabulary(config: Config, tokenizers: TokenizerPair) -> Config:
    """The configuration with the vocabulary and the special ids of the tokenizers."""
    source, target = tokenizers.source, tokenizers.target
    tied = config.model.tied_embeddings
    model = dataclasses.replace(
        config.model,
        vocab_size=source.vocab_size,
        target_vocab_size=None if tokenizers.shared else target.vocab_size,
        tied_embeddings="target" if tied == "all" and not tokenizers.shared else tied,
        pad_id=target.pad_id,
        bos_id=target.bos_id,
        eos_id=target.eos_id,
    )
    return dataclasses.replace(config, model=model)


def with_vocabulary_of(config: Config, saved: Config, tokenizers: TokenizerPair) -> Config:
    """The configuration with the vocabulary and the special ids of a work directory with the same tokenizers.

    An imported model's two tokenizers may share one vocabulary, which `with_vocabulary` cannot see.
    """
    fields = ["vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id"]
    if config.model.tied_embeddings == "all" and saved.model.tied_embeddings != "none" and not tokenizers.shared:
        fields.append("tied_embeddings")
    same = {field: getattr(saved.model, field) for field in fields}
    return dataclasses.replace(config, model=dataclasses.replace(config.model, **same))


def open_workdir(
    path: str | os.PathLike, config: Config, prepared: PreparedDataset, worker: Worker, devices: dict
) -> Workdir:
    """Open the work directory: create it for a new run, or check that this configuration and data can resume it."""
    path = pathlib.Path(path)
    # `evaluate` finds the test set by this path.
    info = prepared.info | {"directory": str(prepared.path.resolve())}
    if (path / CONFIG).is_file():
        saved = Workdir(path)
        found = checkpoints.list_checkpoints(saved.checkpoints)
        begun = has_begun(saved.dataset_info) and any(map(checkpoints.is_resumable, found))
        check_dataset(saved.dataset_info, prepared.info, path, prepared.path)
        config = with_vocabulary_of(config, saved.config, prepared.tokenizers)
        check_config(saved.config, config, path, begun, weights=bool(found))
        if worker.is_chief:
            write_config(path, config, devices)
            if not begun:
                write_dataset_info(path, saved.dataset_info | info)
        directory = Workdir(path)
        # Not read again: in another worker the chief may not have written it yet.
        directory.config = config
        return directory
    if worker.is_chief:
        return Workdir.create(path, with_vocabulary(config, prepared.tokenizers), prepared.tokenizers, info, devices)
    _wait_for(path / CONFIG)
    return Workdir(path)


def _wait_for(file: pathlib.Path, seconds: float = 1200.0) -> None:
    """Wait until the chief has written a file."""
    until = time.monotonic() + seconds
    while not file.is_file():
        if time.monotonic() > until:
            raise LostWorkerError(
                f"Expected the chief to write {file}. Received: nothing within {seconds:.0f} s. Give all workers the "
                "same --workdir, on shared storage."
            )
        time.sleep(0.2)
