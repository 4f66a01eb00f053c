"""The files of a SavedModel: whether they are all there and undamaged, and how big they are.

An export of ours lists a SHA-256 of each file in its `model.json`. For other SavedModels there is `fingerprint.pb`,
which TensorFlow writes: hashes of the graph and of the variables' index, whose entries hold a checksum of every
variable. Together they notice every flipped bit that changes what is read.
"""

import dataclasses
import json
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import fingerprint_pb2, meta_graph_pb2, saved_model_pb2
from tensorflow.python.saved_model.pywrap_saved_model import fingerprinting  # Private API: see test_private_apis.py

from tf_transformer._files import sha256_of_file
from tf_transformer.export.inspection._report import Problem

GRAPH = "saved_model.pb"
FINGERPRINT = "fingerprint.pb"
CARD = "model.json"
INDEX = "variables/variables.index"


@dataclasses.dataclass(frozen=True)
class Variables:
    """Number and size of the variables of a SavedModel, and problems with them."""

    count: int = 0
    parameters: int = 0
    problems: tuple[Problem, ...] = ()


def read_graph(directory: pathlib.Path) -> saved_model_pb2.SavedModel | Problem:
    """The SavedModel message of a directory, or the Problem that kept it from being read."""
    message = saved_model_pb2.SavedModel()
    try:
        message.ParseFromString((directory / GRAPH).read_bytes())
    except Exception as error:  # protobuf's DecodeError differs between its implementations
        return Problem("damaged", f"{GRAPH} cannot be parsed ({error}): copy the SavedModel again")
    if not message.meta_graphs:
        return Problem("damaged", f"{GRAPH} holds no graph (it has {(directory / GRAPH).stat().st_size} bytes)")
    return message


def read_languages(directory: pathlib.Path) -> dict:
    """The languages in the model card of an export of ours; none for other SavedModels."""
    try:
        card = json.loads((directory / CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    found = card.get("languages") if isinstance(card, dict) else None
    return found if isinstance(found, dict) and any(found.values()) else {}


def checksum_problems(directory: pathlib.Path) -> list[Problem] | None:
    """Problems of the files against the list in `model.json`; None when there is no such list."""
    try:
        card = json.loads((directory / CARD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        return [Problem("damaged", f"{CARD} cannot be read ({error}): copy the SavedModel again")]
    listed = card.get("files") if isinstance(card, dict) else None
    if not isinstance(listed, dict) or not all(isinstance(each, dict) and "sha256" in each for each in listed.values()):
        return None  # somebody else's file of that name
    problems = []
    for name, written in listed.items():
        if not (directory / name).is_file():
            problems.append(Problem("damaged", f"{name} is missing: {CARD} lists it"))
        elif sha256_of_file(directory / name) != written["sha256"]:
            problems.append(Problem("damaged", f"{name} is not what was written: its SHA-256 differs from {CARD}"))
    return problems


def fingerprint_problems(directory: pathlib.Path) -> list[Problem]:
    """Problems of the graph and of the variables' index against `fingerprint.pb`; none when there is no such file.

    A graph that is damaged in a rare way makes TensorFlow crash here, and the process with it.
    """
    if not (directory / FINGERPRINT).is_file():
        return []
    written, found = fingerprint_pb2.FingerprintDef(), fingerprint_pb2.FingerprintDef()
    try:
        written.ParseFromString((directory / FINGERPRINT).read_bytes())
    except Exception as error:  # as above
        return [Problem("damaged", f"{FINGERPRINT} cannot be parsed ({error}): copy the SavedModel again")]
    try:
        found.ParseFromString(fingerprinting.CreateFingerprintDef(str(directory)))
    except Exception as error:  # an exception type of the C++ binding
        return [Problem("damaged", f"the fingerprint of {GRAPH} cannot be computed: {error}")]
    if written.version.producer != found.version.producer:
        return []  # another TensorFlow's way of hashing: its numbers cannot be compared with ours
    problems = []
    if written.saved_model_checksum != found.saved_model_checksum:
        problems.append(Problem("damaged", f"{GRAPH} is not what was written: its checksum differs from {FINGERPRINT}"))
    if written.checkpoint_hash != found.checkpoint_hash:
        problems.append(Problem("damaged", f"{INDEX} is not what was written: its checksum differs from {FINGERPRINT}"))
    return problems


def damage_problems(directory: pathlib.Path) -> list[Problem]:
    """Problems of the files, by the better of the two lists there may be."""
    problems = checksum_problems(directory)
    return fingerprint_problems(directory) if problems is None else problems


def asset_problems(directory: pathlib.Path, meta_graph: meta_graph_pb2.MetaGraphDef) -> list[Problem]:
    """A problem for each asset file that the graph names and the directory lacks."""
    missing = [
        each.filename for each in meta_graph.asset_file_def if not (directory / "assets" / each.filename).is_file()
    ]
    return [Problem("damaged", f"assets/{name} is missing: the graph reads it when it loads") for name in missing]


def read_variables(directory: pathlib.Path, expected: bool) -> Variables:
    """Read every variable, which checks its checksum, and look for values that are not finite.

    Args:
        directory: The SavedModel.
        expected: Whether the graph has variables, so that missing files are a fault.
    """
    if not (directory / INDEX).is_file():
        missing = Problem("damaged", f"{INDEX} is missing, and the graph has variables: copy the SavedModel again")
        return Variables(problems=(missing,) if expected else ())
    try:
        reader = tf.train.load_checkpoint(str(directory / "variables" / "variables"))
        names = sorted(reader.get_variable_to_shape_map())
    except (tf.errors.OpError, ValueError, IndexError) as error:
        return Variables(problems=(Problem("damaged", f"{INDEX} cannot be read: {_first_line(error)}"),))
    return _read_each(reader, names)


def _read_each(reader: Any, names: Iterable[str]) -> Variables:
    count = parameters = 0
    problems = []
    for name in names:
        try:
            value = reader.get_tensor(name)
        except (tf.errors.OpError, ValueError, IndexError, RuntimeError) as error:
            problems.append(Problem("damaged", f"variable {name} cannot be read: {_first_line(error)}"))
            continue
        if not isinstance(value, np.ndarray) or value.dtype == object:
            continue  # the object graph and other strings
        count, parameters = count + 1, parameters + value.size
        strange = 0 if value.dtype.kind in "biu" else int(value.size - np.isfinite(value.astype(np.float64)).sum())
        if strange:
            problems.append(Problem("numbers", f"variable {name} holds {strange} values that are NaN or infinite"))
    return Variables(count, parameters, tuple(problems))


def bytes_under(path: pathlib.Path) -> int:
    """The size of a file, or of all files under a directory; 0 when there is none."""
    if path.is_file():
        return path.stat().st_size
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
