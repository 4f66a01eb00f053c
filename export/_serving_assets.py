"""Assets for TensorFlow Serving next to the graph: warm-up requests and batching parameters.

assets.extra/tf_serving_warmup_requests   replayed when the model loads, so that no client waits for the first run
batching_params.pbtxt                     read with --enable_batching --enable_per_model_batching_parameters
"""

import os
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from tf_transformer.export._signatures import INPUTS

WARMUP_FILE = pathlib.PurePosixPath("assets.extra", "tf_serving_warmup_requests")
BATCHING_FILE = "batching_params.pbtxt"
BATCH_SIZE = 32

# Large requests are not split (enable_large_batch_splitting): `attention` and `alignment` answer as wide as a batch's
# longest row, and parts of different widths cannot be put together again. The number of threads is left to the server,
# which knows its cores.
_BATCHING = """\
# Requests that wait at the same time are answered in one batch. A request of more rows than max_batch_size is rejected.
max_batch_size {{ value: {size} }}
batch_timeout_micros {{ value: 2000 }}
max_enqueued_batches {{ value: 256 }}
"""


def write_serving_assets(
    directory: pathlib.Path,
    model_name: str,
    pairs: list[tuple[bytes, bytes]],
    signatures: Iterable[str] = INPUTS,
    target_language: str | None = None,
) -> None:
    """Write the warm-up requests and the batching parameters into a SavedModel's directory.

    Args:
        directory: the SavedModel.
        model_name: its name in the requests.
        pairs: sentences and their translations, of usual lengths; at least one.
        signatures: names of the signatures that it has.
        target_language: for the signature `translate_to`.
    """
    (directory / BATCHING_FILE).write_text(_BATCHING.format(size=BATCH_SIZE), encoding="utf-8")
    file = directory / WARMUP_FILE
    file.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for log in warmup_logs(model_name, pairs, signatures, target_language):
            writer.write(log.SerializeToString())


def warmup_logs(
    model_name: str,
    pairs: list[tuple[bytes, bytes]],
    signatures: Iterable[str] = INPUTS,
    target_language: str | None = None,
) -> list[prediction_log_pb2.PredictionLog]:
    """A request of one row and one of up to eight, for every signature."""
    logs = []
    for signature in signatures:
        names = INPUTS[signature]
        for count in sorted({1, min(8, len(pairs))}):
            sources, targets = (list(side) for side in zip(*pairs[:count]))
            columns = {"target_language": [(target_language or "").encode()] * count, "target": targets}
            logs.append(_log(model_name, signature, {name: columns.get(name, sources) for name in names}))
    return logs


def _log(model_name: str, signature: str, inputs: dict[str, list[bytes]]) -> prediction_log_pb2.PredictionLog:
    spec = model_pb2.ModelSpec(name=model_name, signature_name=signature)
    tensors = {name: tf.make_tensor_proto(rows, tf.string, [len(rows)]) for name, rows in inputs.items()}
    request = predict_pb2.PredictRequest(model_spec=spec, inputs=tensors)
    return prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))


MAX_WARMUP_REQUESTS = 1000


def read_warmup_requests(directory: str | os.PathLike) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """The requests as (signature name, arrays by input name); nothing when there is no such file.

    Raises:
        ValueError: The file is damaged or longer than servers accept.
    """
    path = pathlib.Path(directory) / WARMUP_FILE
    if not path.is_file():
        return
    try:
        for number, record in enumerate(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()):
            if number == MAX_WARMUP_REQUESTS:
                raise ValueError(
                    f"{path} has more than {MAX_WARMUP_REQUESTS} requests, which servers reject: write fewer"
                )
            log = prediction_log_pb2.PredictionLog.FromString(record)
            request = log.predict_log.request
            name = request.model_spec.signature_name or "serving_default"
            yield name, {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
    except tf.errors.DataLossError as error:
        raise ValueError(f"{path} is damaged: {error.message}") from error
