"""Work directory: configuration, tokenizers, checkpoints, logs and scores of a run."""

import contextlib
import dataclasses
import functools
import json
import logging
import os
import pathlib
from typing import TYPE_CHECKING, Any

from tf_transformer import _files
from tf_transformer._version import versions_of
from tf_transformer.config import Config
from tf_transformer.workdir import checkpoints
from tf_transformer.workdir.checkpoints import CheckpointError

if TYPE_CHECKING:
    from tf_transformer.model import Transformer
    from tf_transformer.text import TokenizerPair

CONFIG, DATASET = "config.json", "dataset.json"
_KEPT_BY_NAME = ("average", "best")

logger = logging.getLogger(__name__)


class Workdir:
    """Work directory of a run, written by `train` or `import` and read by all later commands.

        config.json            the complete configuration, with the versions of the packages and the devices
        tokenizer.model        or source.model and target.model
        dataset.json           a copy of what `prepare` wrote
        checkpoints/           step-XXXXXXXX/, best/, average/
        logs/                  TensorBoard and log.jsonl
        evaluation/

    Example:
        >>> model = Workdir("run").load_model("best")
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        if not (self.path / CONFIG).is_file():
            raise ValueError(
                f"Expected a work directory. Received: {self.path}, which has no {CONFIG}. Pass the directory that "
                "`tf-transformer train --workdir` wrote."
            )

    @classmethod
    def create(
        cls,
        path: str | os.PathLike,
        config: Config,
        tokenizers: "TokenizerPair",
        dataset_info: dict,
        devices: dict | None = None,
    ) -> "Workdir":
        """Write a new work directory without checkpoints. config.json is written last and marks it as complete."""
        from tf_transformer.text import save_tokenizers

        path = pathlib.Path(path)
        path.mkdir(parents=True, exist_ok=True)
        save_tokenizers(tokenizers, path)
        write_dataset_info(path, {"tokenizer": {"sha256": tokenizers.sha256}} | dataset_info)
        write_config(path, config, devices)
        return cls(path)

    @functools.cached_property
    def config(self) -> Config:
        return Config.load(self.path / CONFIG)

    @functools.cached_property
    def tokenizers(self) -> "TokenizerPair":
        """The TokenizerPair that the model was trained with."""
        from tf_transformer.text import load_tokenizers

        tokenizers = load_tokenizers(self.path)
        expected = self.dataset_info.get("tokenizer", {}).get("sha256")
        if expected is not None and tokenizers.sha256 != expected:
            raise ValueError(
                f"Expected in {self.path} the tokenizer that the model was trained with. Received: files with another "
                "SHA-256 than in dataset.json. Restore them, for instance from the prepared directory."
            )
        return tokenizers

    @functools.cached_property
    def dataset_info(self) -> dict:
        """dataset.json of the prepared data; empty for a model trained elsewhere."""
        file = self.path / DATASET
        if not file.is_file():
            return {}
        try:
            info = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{file}: expected JSON. Received: {error}. Restore the file from the prepared directory."
            ) from error
        if not isinstance(info, dict) or not isinstance(info.get("tokenizer", {}), dict):
            raise ValueError(
                f"{file}: expected a JSON object with an object `tokenizer`. Received: another value. Restore the file "
                "from the prepared directory."
            )
        return info

    def language_pair(self, source: str | None = None, target: str | None = None) -> tuple[str | None, str | None]:
        """The given languages, each replaced by that of the work directory where it is None.

        A model of one pair has no others: ValueError for another language.
        """
        named = self.dataset_info.get("source_language"), self.dataset_info.get("target_language")
        for side, own, given in zip(("source", "target"), named, (source, target)):
            if own is not None and given not in (None, own) and self.tokenizers.languages is None:
                raise ValueError(
                    f"Expected {own!r}, the {side} language of {self.path}. Received: {given!r}. Leave it out, or use "
                    "a multilingual model."
                )
        return source or named[0], target or named[1]

    @property
    def checkpoints(self) -> pathlib.Path:
        return self.path / "checkpoints"

    @property
    def logs(self) -> pathlib.Path:
        return self.path / "logs"

    @property
    def evaluation(self) -> pathlib.Path:
        return self.path / "evaluation"

    def checkpoint(self, which: str | os.PathLike = "auto") -> pathlib.Path:
        """The directory of a verified checkpoint.

        Args:
            which: "average", "best", "latest", a name such as "step-00000100", or a path. "auto" is the average
                if it exists, otherwise the best, otherwise the latest.
        """
        if which == "auto":
            return self._first_intact()
        if which == "latest":
            return self._latest()
        path = self.checkpoints / which
        if not path.is_dir():
            path = pathlib.Path(which)
        if not path.is_dir():
            raise CheckpointError(
                f"Expected one of the checkpoints of {self.path}: {self._inventory()}. Received: {which!s}."
            )
        checkpoints.verify_checkpoint(path)
        return path

    def load_model(
        self, which: str | os.PathLike = "auto", for_inference: bool = False, rows: bool = False
    ) -> "Transformer":
        """The Transformer of this directory with the weights of a checkpoint.

        Args:
            which: as in `checkpoint`.
            for_inference: whether to store the weights in the layout that is fastest for search on a CPU; see
                `layers.inference_layout`.
            rows: whether that is for a search that looks up many rows of the tables, such as one with a shortlist.
        """
        from tf_transformer.layers import inference_layout
        from tf_transformer.model import Transformer
        from tf_transformer.workdir._weights import assign_model

        path = self.checkpoint(which)
        logger.info("Loading the weights of %s.", path)
        with inference_layout(rows=rows) if for_inference else contextlib.nullcontext():
            model = Transformer(self.config.model)
        assign_model(model, checkpoints.ModelTensors(path), str(path))
        return model

    def change_decoding(self, **fields: Any) -> None:
        """Change fields of the section `decoding` in config.json; the rest of the file stays as it is."""
        changed = dataclasses.replace(self.config.decoding, **fields)
        values = json.loads((self.path / CONFIG).read_text(encoding="utf-8"))
        _files.write_json(self.path / CONFIG, values | {"decoding": changed.to_dict()})
        self.__dict__.pop("config", None)

    def _first_intact(self) -> pathlib.Path:
        for name in _KEPT_BY_NAME:
            if (path := self.checkpoints / name).is_dir():
                try:
                    info = checkpoints.verify_checkpoint(path)
                    if name == "average":
                        self._warn_if_stale(path, info["step"])
                    return path
                except CheckpointError as error:
                    logger.warning("%s Using another checkpoint.", error)
        return self._latest()

    def _warn_if_stale(self, average: pathlib.Path, step: int) -> None:
        """Warn if there are newer checkpoints than the average."""
        numbered = [path.name for path in checkpoints.list_checkpoints(self.checkpoints)]
        if numbered and step < int(numbered[-1].removeprefix("step-")):
            logger.warning(
                f"{average} is of step {step}, but there is {numbered[-1]}: run `tf-transformer average --workdir "
                f"{self.path}` again, or choose another checkpoint."
            )

    def _latest(self) -> pathlib.Path:
        path = checkpoints.latest_intact(self.checkpoints)
        if path is None:
            raise CheckpointError(
                f"Expected a checkpoint in {self.path}. Received: none yet. `tf-transformer train --workdir "
                f"{self.path}` writes them."
            )
        return path

    def _inventory(self) -> str:
        named = [name for name in _KEPT_BY_NAME if (self.checkpoints / name).is_dir()]
        return ", ".join([*named, *(path.name for path in checkpoints.list_checkpoints(self.checkpoints))]) or "none"


def write_config(path: str | os.PathLike, config: Config, devices: dict | None = None) -> None:
    """Write config.json of a work directory: the configuration, the versions of packages, and the devices.

    Args:
        devices: from `devices_of`; None if nothing is trained.
    """
    environment = {"versions": package_versions()} | ({} if devices is None else {"devices": devices})
    _files.write_json(pathlib.Path(path) / CONFIG, config.to_dict() | environment)


def write_dataset_info(path: str | os.PathLike, info: dict) -> None:
    """Write dataset.json of a work directory."""
    _files.write_json(pathlib.Path(path) / DATASET, info)


def remove_leftovers(path: str | os.PathLike) -> None:
    """Remove what killed processes left half-written in a work directory, and restore what they were replacing."""
    for directory in (pathlib.Path(path), pathlib.Path(path) / "checkpoints", pathlib.Path(path) / "logs"):
        _files.remove_leftovers(directory)


def package_versions() -> dict[str, str]:
    """The versions of packages that results depend on."""
    return versions_of("tensorflow", "keras", "numpy", "tensorflow-text", "sentencepiece", "sacrebleu")
