"""A SavedModel in memory: its signatures as functions from arrays to arrays, checked and warmed up when it loads."""

import json
import logging
import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizers' ops

from tf_transformer.export._serving_assets import read_warmup_requests
from tf_transformer.export.inspection import Problem, checksum_problems, read_graph
from tf_transformer.export.serving._errors import BadRequest
from tf_transformer.text import LanguageError, Languages

logger = logging.getLogger(__name__)


class BadModel(ValueError):
    """Raised for a SavedModel that cannot be served: damaged, without signatures, or failing its warm-up."""


class ServedSignature:
    """A signature as a function from arrays to arrays.

    Attributes:
        inputs, outputs: TensorSpecs by name.
        mergeable: Whether requests may share a call: dimension 0 is the batch everywhere, and no other size of an
            output depends on what else is in the batch.
        padded: Whether outputs are padded to the longest row of the batch, with "", 0.0 and -1, as `attention` and
            `alignment` of an export are: a request may be split but not merged with others.
        model_name: The name of the model, for metrics.
    """

    def __init__(self, name: str, function: Any, model_name: str = "", exported: bool = False) -> None:
        self.name = name
        self.model_name = model_name
        self.inputs = dict(function.structured_input_signature[1])
        self.outputs = dict(function.structured_outputs)
        batched = all(_has_free_batch(each.shape) for each in (*self.inputs.values(), *self.outputs.values()))
        fixed = batched and all(each.shape[1:].is_fully_defined() for each in self.outputs.values())
        self.mergeable = fixed
        self.padded = batched and not fixed and exported
        self._function = function

    def __call__(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the signature; raises BadRequest for what the model rejects."""
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
        name: The name of the model in requests.
        warm_up: Whether to replay `assets.extra/tf_serving_warmup_requests`, if it is there.

    Attributes:
        card: The contents of the export's model card; empty for a SavedModel from elsewhere.
    """

    def __init__(self, directory: str | os.PathLike, version: int, name: str = "", warm_up: bool = True) -> None:
        self.directory = pathlib.Path(directory)
        self.version = version
        self.card = _read_card(self.directory)
        self.signature_defs = self._read_signature_defs()
        # Kept: variables and tables live as long as the object that owns them.
        self._loaded = tf.saved_model.load(str(self.directory), tags=["serve"])
        self.signatures = {
            key: ServedSignature(key, each, name, exported=bool(self.card))
            for key, each in self._loaded.signatures.items()
        }
        if not self.signatures:
            raise BadModel(f"{self.directory} has no signatures: export it with signatures")
        if warm_up:
            self._warm_up()

    def signature(self, name: str) -> ServedSignature:
        """The signature of that name."""
        if name not in self.signatures:
            known = ", ".join(sorted(self.signatures))
            raise BadRequest(f'Serving signature name: "{name[:100]}" not found in signature def; there are: {known}')
        return self.signatures[name]

    def check_languages(self, tensors: dict[str, np.ndarray]) -> None:
        """Raise BadRequest, with similar codes, for target languages of rows that the model does not have."""
        known = self.card.get("languages")
        codes = known.get("targets") if isinstance(known, dict) else None
        if not codes or "target_language" not in tensors:
            return
        languages = Languages(dict.fromkeys(codes, 0))
        try:
            for code in dict.fromkeys(tensors["target_language"].ravel()):
                languages.check("target", code.decode("utf-8", "replace"))
        except LanguageError as error:
            raise BadRequest(str(error)) from None

    def _read_signature_defs(self) -> dict[str, Any]:
        """The SignatureDefs of an undamaged SavedModel."""
        message = read_graph(self.directory)
        if isinstance(message, Problem):
            raise BadModel(f"{self.directory}: {message.message}")
        problems = checksum_problems(self.directory)
        if problems is None:
            problems = _damage_found_in_subprocess(self.directory)
        if problems:
            raise BadModel(f"{self.directory}: {problems[0].message}")
        return dict(message.meta_graphs[0].signature_def)

    def _warm_up(self) -> None:
        count = 0
        for name, tensors in read_warmup_requests(self.directory):
            try:
                self.signature(name)(tensors)
            except (ValueError, KeyError, tf.errors.OpError) as error:
                raise BadModel(f"warm-up request {count} of {self.directory} failed: {error}") from error
            count += 1
        if count:
            logger.info("replayed %d warm-up requests of version %d", count, self.version)


def _read_card(directory: pathlib.Path) -> dict:
    try:
        card = json.loads((directory / "model.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return card if isinstance(card, dict) else {}


def _damage_found_in_subprocess(directory: pathlib.Path) -> list[Problem]:
    """Look for damage in another process: a damaged graph can crash the process that reads it."""
    command = [sys.executable, "-m", "tf_transformer.pipelines.inspect", str(directory), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return [Problem("damaged", f"it could not be inspected: {reason}")]
    problems = [Problem(**each) for each in json.loads(done.stdout)["problems"]]
    return [problem for problem in problems if problem.kind == "damaged"]


def _has_free_batch(shape: tf.TensorShape) -> bool:
    return shape.rank is not None and shape.rank > 0 and shape[0] is None
