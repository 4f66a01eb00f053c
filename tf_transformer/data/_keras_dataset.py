"""A `tf.data.Dataset` of the training batches, for `model.fit` and other code that takes one."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tf_transformer.data._assembly import Batch
from tf_transformer.data._batching import BatchStream

_INPUTS = ("source", "target")
_PACKED = ("source_segments", "target_segments", "source_positions", "target_positions")


def as_dataset(stream: BatchStream, epoch: int | None = None) -> tf.data.Dataset:
    """The batches of `stream` as `({"source": (R, S), "target": (R, T), …}, labels (R, T), weights (R, T))`, int32.

    Labels are padded with the pad id; the weights (float32) are 0 there and 1 elsewhere, so that any Keras loss leaves
    padding out.

    Args:
        stream: where the batches come from.
        epoch: give this epoch's batches once; None: go on for ever, as `fit(steps_per_epoch=…)` wants it.

    Example:
        model.compile(optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(as_dataset(stream), steps_per_epoch=stream.batches_per_epoch(), epochs=3)
    """
    names = _INPUTS + (_PACKED if stream.options.batching == "pack" else ())
    ids = tf.TensorSpec([None, None], tf.int32)
    signature = ({name: ids for name in names}, ids, tf.TensorSpec([None, None], tf.float32))
    return tf.data.Dataset.from_generator(lambda: _items(stream, epoch, names), output_signature=signature)


def _items(stream: BatchStream, epoch: int | None, names: tuple[str, ...]) -> Iterator[tuple[Batch, np.ndarray, ...]]:
    pad = stream.prepared.special_ids.target_pad
    for batch, position in stream.batches({"epoch": epoch or 0, "batch": 0}):
        if epoch is not None and position["epoch"] != epoch:
            return
        weights = (batch["labels"] != pad).astype(np.float32)
        yield {name: batch[name] for name in names}, batch["labels"], weights
