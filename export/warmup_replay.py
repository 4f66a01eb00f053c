"""Reading warm-up requests: `assets.extra/tf_serving_warmup_requests`, as TensorFlow Serving does at load."""

import pathlib
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"
MAX_WARMUP_REQUESTS = 1000


def read_warmup_requests(directory) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
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
                    f"{path} has more than {MAX_WARMUP_REQUESTS} requests, which servers refuse: write fewer"
                )
            log = prediction_log_pb2.PredictionLog.FromString(record)
            request = log.predict_log.request
            name = request.model_spec.signature_name or "serving_default"
            yield name, {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
    except tf.errors.DataLossError as error:
        raise ValueError(f"{path} is damaged: {error.message}") from error
