"""Parity check of an export: a separate process that loads it must give the checkpoint's answers.

The process imports TensorFlow and tensorflow_text only; the SavedModel has been moved and is read-only. Strings and
integers must be equal, scores within `TOLERANCE`.
"""

import base64
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_transformer._startup_messages import is_startup_message
from tf_transformer.export._trial_rows import SCRIPTS, beginnings, documents_of
from tf_transformer.export.inspection import Report, inspect_saved_model

TOLERANCE = 1e-4
# Scores are sums over tokens: of a long row's, float32 knows no more digits.
_RELATIVE = 1e-5
_SHOWN = 5
_SCRIPT = pathlib.Path(__file__).with_name("_clean_process.py")

Request = tuple[str, dict[str, list[bytes]]]
"""A signature's name and its inputs."""

Answer = dict[str, np.ndarray]
"""The outputs of a request."""


class ExportRejected(ValueError):
    """Raised for an export that fails a check and is not published."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """Result of a parity check: requests and rows compared, seconds to load, and seconds in total."""

    requests: int
    rows: int
    load_seconds: float
    seconds: float


def require_sound(directory: pathlib.Path) -> Report:
    """The report of `inspect` on a SavedModel; ExportRejected if it has problems."""
    report = inspect_saved_model(directory)
    if report.problems:
        found = "\n".join(f"  {problem.message}" for problem in report.problems)
        raise ExportRejected(f"The export has problems; nothing was published:\n{found}")
    return report


def trial_requests(
    functions: Mapping[str, Callable],
    sentences: list[list[bytes]],
    unusual: list[list[bytes]],
    targets: Sequence[str] = (),
) -> tuple[list[Request], list[Answer]]:
    """The requests of a parity check, and the expected answers.

    All batches are translated, and their translations scored. The first and the unusual ones also go through `nbest`,
    a few rows of them through `attention` and `alignment`. Where there is a signature `document`, all of a text is
    translated, so of very long rows only the beginning is, and documents made of the sentences are translated and
    segmented too.

    Args:
        functions: the signatures of the model in memory.
        sentences, unusual: batches of rows of text.
        targets: codes for the signature `translate_to`, one after another.
    """
    segmented = "document" in functions
    batches = sentences + [beginnings(batch) if segmented else batch for batch in unusual]
    translated = [("serving_default", {"text": batch}) for batch in batches]
    answers = answer(functions, translated)
    others: list[Request] = [
        ("score", {"source": batch, "target": found["translation"].tolist()}) for batch, found in zip(batches, answers)
    ]
    others += [("nbest", {"text": batch}) for batch in [*sentences[:1], *unusual]]
    if segmented:
        documents = [documents_of(batch) for batch in sentences[:1]] + batches[len(sentences) :]
        others += [(name, {"text": batch}) for batch in documents for name in ("document", "segments")]
    few = [batch[:5] for batch in [*sentences[:1], *unusual]]
    others += [("attention", {"text": batch}) for batch in few]
    others += [("alignment", {"text": batch}) for batch in [*few, SCRIPTS]]
    if "model_card" in functions:
        others.append(("model_card", {"text": sentences[0][:2]}))
    if targets:
        several = [*sentences[:1], *batches[len(sentences) :]]
        others += [("translate_to", {"text": batch, "target_language": _cycled(targets, batch)}) for batch in several]
    return translated + others, answers + answer(functions, others)


def _cycled(codes: Sequence[str], rows: list[bytes]) -> list[bytes]:
    return [codes[number % len(codes)].encode() for number in range(len(rows))]


def answer(functions: Mapping[str, Callable], requests: list[Request]) -> list[Answer]:
    """The answers of functions in memory to requests, computed on the CPU as the clean process does."""
    answers = []
    for signature, inputs in requests:
        with tf.device("/CPU:0"):
            tensors = {name: tf.constant(rows, tf.string, [len(rows)]) for name, rows in inputs.items()}
            answers.append({name: value.numpy() for name, value in functions[signature](**tensors).items()})
    return answers


def verify_export(
    directory: pathlib.Path,
    requests: list[Request],
    expected: list[Answer],
    timeout: float | None = None,
    scratch: pathlib.Path | None = None,
) -> Trial:
    """Raise ExportRejected, with the first differences, unless a clean process gives the expected answers.

    Args:
        directory: the SavedModel.
        requests, expected: from `trial_requests`.
        timeout: seconds after which it is rejected for not answering; None: no limit.
        scratch: directory for requests and answers; None: that of temporary files.
    """
    began = time.monotonic()
    found, load_seconds = answers_of_clean_process(directory, requests, timeout, scratch)
    differences = [
        difference for request, *pair in zip(requests, expected, found) for difference in _compare(request, *pair)
    ]
    if differences:
        shown = "\n".join(differences[:_SHOWN])
        raise ExportRejected(
            f"The answers of the export differ from the checkpoint's; nothing was published. Differences: "
            f"{len(differences)}{f', the first {_SHOWN}' if len(differences) > _SHOWN else ''}:\n{shown}"
        )
    rows = sum(len(next(iter(inputs.values()))) for _, inputs in requests)
    return Trial(len(requests), rows, load_seconds, time.monotonic() - began)


def answers_of_clean_process(
    directory: pathlib.Path, requests: list[Request], timeout: float | None = None, scratch: pathlib.Path | None = None
) -> tuple[list[Answer], float]:
    """The answers of a SavedModel in a separate process, and the seconds it took to load."""
    encoded = [
        [name, {key: [_to_text(row) for row in rows] for key, rows in inputs.items()}] for name, inputs in requests
    ]
    # Absolute: the process has another working directory.
    with tempfile.TemporaryDirectory(dir=scratch and scratch.resolve()) as folder:
        questions, reply = pathlib.Path(folder, "requests.json"), pathlib.Path(folder, "answers.json")
        questions.write_text(json.dumps(encoded), encoding="utf-8")
        _run([str(directory.resolve()), str(questions), str(reply)], folder, timeout)
        result = json.loads(reply.read_text(encoding="utf-8"))
    if result["imported"]:
        raise ExportRejected(f"Loading the export imported {', '.join(result['imported'])}, which other machines lack.")
    answers = [{name: _decode(value) for name, value in each.items()} for each in result["answers"]]
    return answers, result["load_seconds"]


def _run(arguments: list[str], folder: str, timeout: float | None) -> None:
    """Run the script in `folder`. `-P` keeps its own folder off the module path.

    Its standard input is a pipe that this process holds open, and at whose end the script ends: it does not outlive
    this process, even if that is killed.
    """
    command = [sys.executable, "-P", str(_SCRIPT), *arguments]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    reading, writing = os.pipe()
    try:
        done = subprocess.run(command, cwd=folder, env=environment, stdin=reading, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise ExportRejected(f"The export did not answer within {timeout:.0f} s; nothing was published.") from None
    finally:
        os.close(reading)
        os.close(writing)
    if done.returncode:
        written = [line for line in done.stderr.splitlines() if not is_startup_message(line)]
        lines = [line.decode("utf-8", "replace") for line in written]
        raise ExportRejected(
            f"The export does not load and answer in a separate process (exit code {done.returncode}); nothing was "
            "published:\n" + "\n".join(lines[-20:])
        )


def _compare(request: Request, expected: Answer, found: Answer) -> list[str]:
    """One text per row of an output that differs."""
    signature, inputs = request
    if expected.keys() != found.keys():
        return [f"  {signature}: the outputs are {sorted(found)}, expected {sorted(expected)}"]
    texts = []
    for name in sorted(expected):
        one, other = expected[name], found[name]
        if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
            texts.append(f"  {signature}.{name}: {other.dtype} {other.shape}, expected {one.dtype} {one.shape}")
            continue
        for row in np.flatnonzero(~_same_rows(one, other)):
            sent = "; ".join(f"{key}={_short(rows[row])}" for key, rows in inputs.items())
            sides = f"    checkpoint: {_short(one[row])}\n    export:     {_short(other[row])}"
            texts.append(f"  {signature}.{name} of {sent}\n{sides}")
    return texts


def _same_rows(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Compare two arrays of one shape row by row: [N] bool, True for equal rows. NaN is never the same."""
    close = one.dtype.kind == "f"
    same = np.isclose(one, other, rtol=_RELATIVE, atol=TOLERANCE) if close else one == other
    return same.reshape(len(same), -1).all(axis=1) if same.size else np.ones(len(same), bool)


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
        return repr(value if len(value) <= 100 else f"{value[:100]}… ({len(value)} characters)")
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return f"[{', '.join(_short(each) for each in value[:4])}{', …' if len(value) > 4 else ''}]"
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _to_text(row: bytes) -> str:
    return base64.b64encode(row).decode()


def _decode(array: dict) -> np.ndarray:
    if array["dtype"] == "string":
        values = np.empty(len(array["values"]), object)
        values[:] = [base64.b64decode(each) for each in array["values"]]
    else:
        values = np.asarray(array["values"], array["dtype"])
    return values.reshape(array["shape"])
