"""Script of the parity check: answers requests from a SavedModel, with TensorFlow and tensorflow_text only.

    python -P _clean_process.py SAVED_MODEL REQUESTS ANSWERS

`verify_export` runs it: what it can load and answer, any machine can. REQUESTS is a JSON list of [signature, inputs],
with strings in base64; ANSWERS becomes {"answers": […], "load_seconds": …, "imported": […]}, with arrays in the form of
`encode`. It imports none of this package, and nothing of this package may be imported by what it loads. The process
ends with the one that started it: at the end of standard input.
"""

import base64
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of the tokenizer

if TYPE_CHECKING:
    import numpy as np


def encode(array: "np.ndarray") -> dict:
    """An array as JSON: its type, its shape and its values, strings in base64."""
    flat = array.reshape(-1).tolist()
    if array.dtype.kind in "OSU":
        return {"dtype": "string", "shape": array.shape, "values": [base64.b64encode(each).decode() for each in flat]}
    return {"dtype": array.dtype.name, "shape": array.shape, "values": flat}


def answer(signatures: dict, requests: list[tuple[str, dict]]) -> list[dict]:
    """The outputs of each request, as arrays by name."""
    answers = []
    for signature, inputs in requests:
        tensors = {name: tf.constant([base64.b64decode(row) for row in rows], tf.string, [len(rows)])
                   for name, rows in inputs.items()}  # fmt: skip
        answers.append({name: value.numpy() for name, value in signatures[signature](**tensors).items()})
    return answers


def main(saved_model: str, requests: str, answers: str) -> None:
    """Load the SavedModel, answer the requests and write the answers."""
    with open(requests, encoding="utf-8") as stream:
        decoded = json.load(stream)
    began = time.monotonic()
    model = tf.saved_model.load(saved_model)
    seconds = time.monotonic() - began
    found = [{name: encode(value) for name, value in each.items()} for each in answer(model.signatures, decoded)]
    ours = sorted(name for name in sys.modules if name.split(".")[0] == "tf_transformer")
    with open(answers, "w", encoding="utf-8") as stream:
        json.dump({"answers": found, "load_seconds": seconds, "imported": ours}, stream)


def _end_with_input() -> None:
    """End this process when standard input ends: its writer has ended, even if it was killed."""
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    main(*sys.argv[1:])
