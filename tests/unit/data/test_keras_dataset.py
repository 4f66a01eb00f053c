"""The bridge to Keras: the stream's batches in the form `model.fit` takes, padding weighing nothing."""

import types

import keras
import numpy as np
import pytest

from tf_transformer.data._assembly import SpecialIds
from tf_transformer.data._batching import BatchOptions, BatchStream
from tf_transformer.data._keras_dataset import as_dataset


class Counted:
    """Examples whose ids say their number and side."""

    lengths = np.array([[2 + n % 5, 2 + n % 7] for n in range(101)], np.int32)

    def __len__(self):
        return 101

    def __getitem__(self, n):
        return np.array([4 + n] * (1 + n % 5) + [3]), np.array([4 + n] * (1 + n % 7) + [3])


def stream(batching="bucket"):
    prepared = types.SimpleNamespace(examples=Counted(), special_ids=SpecialIds(), path="prepared")
    return BatchStream(prepared, BatchOptions(batch_tokens=53, batching=batching))


@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_an_epoch_holds_every_label_once(batching):
    labels = np.concatenate(
        [labels.numpy()[weights.numpy() > 0] for _, labels, weights in as_dataset(stream(batching), epoch=2)]
    )
    assert len(labels) == Counted.lengths[:, 1].sum()
    assert all((labels == 4 + n).sum() == 1 + n % 7 for n in range(101))


def test_packed_inputs_come_along():
    inputs, labels, _ = next(iter(as_dataset(stream("pack"))))
    assert inputs.keys() >= {"source_segments", "target_positions"}
    assert inputs["target_segments"].shape == labels.shape


def test_keras_fits_on_it():
    source, target = keras.Input((None,), name="source"), keras.Input((None,), name="target")
    embed = keras.layers.Embedding(211, 7)
    mean = keras.layers.Lambda(lambda x: keras.ops.mean(x, axis=1, keepdims=True), output_shape=(1, 7))
    logits = keras.layers.Dense(211)(embed(target) + mean(embed(source)))
    model = keras.Model({"source": source, "target": target}, logits)
    model.compile(keras.optimizers.Adam(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = model.fit(as_dataset(stream()), steps_per_epoch=11, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
