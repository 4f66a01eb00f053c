"""What a server finds beside the graph: requests to warm up with, and parameters of batching.

assets.extra/tf_serving_warmup_requests   replayed when the model loads, so that no client waits for the first run
batching_params.pbtxt                     read with --enable_batching --enable_per_model_batching_parameters
"""

import pathlib

import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from tf_transformer.export.signatures import INPUTS

WARMUP_FILE = pathlib.PurePosixPath("assets.extra", "tf_serving_warmup_requests")
BATCHING_FILE = "batching_params.pbtxt"
BATCH_SIZE = 32

# Large requests are not split (enable_large_batch_splitting): `attention` answers as wide as a batch's longest row,
# and parts of different widths cannot be put together again. The number of threads is left to the server, which
# knows its cores.
_BATCHING = """\
# Requests that wait at the same time are answered in one batch. A request of more rows than max_batch_size is refused.
max_batch_size {{ value: {size} }}
batch_timeout_micros {{ value: 2000 }}
max_enqueued_batches {{ value: 256 }}
"""


def write_serving_assets(directory: pathlib.Path, model_name: str, pairs: list[tuple[bytes, bytes]]) -> None:
    """Writes the warm-up requests and the batching parameters into a SavedModel's directory.

    Args:
        directory: the SavedModel.
        model_name: its name in the requests.
        pairs: sentences and their translations, of usual lengths; at least one.
    """
    (directory / BATCHING_FILE).write_text(_BATCHING.format(size=BATCH_SIZE), encoding="utf-8")
    file = directory / WARMUP_FILE
    file.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for log in warmup_logs(model_name, pairs):
            writer.write(log.SerializeToString())


def warmup_logs(model_name: str, pairs: list[tuple[bytes, bytes]]) -> list[prediction_log_pb2.PredictionLog]:
    """A request of one row and one of up to eight, for every signature."""
    logs = []
    for signature, names in INPUTS.items():
        for count in sorted({1, min(8, len(pairs))}):
            rows = pairs[:count]
            columns = [[pair[place] for pair in rows] for place in range(len(names))]
            logs.append(_log(model_name, signature, dict(zip(names, columns))))
    return logs


def _log(model_name: str, signature: str, inputs: dict[str, list[bytes]]) -> prediction_log_pb2.PredictionLog:
    spec = model_pb2.ModelSpec(name=model_name, signature_name=signature)
    tensors = {name: tf.make_tensor_proto(rows, tf.string, [len(rows)]) for name, rows in inputs.items()}
    request = predict_pb2.PredictRequest(model_spec=spec, inputs=tensors)
    return prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
