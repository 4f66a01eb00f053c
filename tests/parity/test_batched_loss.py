"""A sentence's loss is the same alone, in a bucket and in a packed row."""

import numpy as np
import pytest
from toy_records import ToyPrepared

from tf_transformer.config import ModelConfig
from tf_transformer.data import BatchOptions, training_dataset
from tf_transformer.model import Transformer

VOCABULARY, COUNT = 53, 31


def random_pairs():
    """Pairs of random ids that are all different."""
    chance = np.random.default_rng(17)
    return [
        tuple([*chance.integers(4, VOCABULARY, chance.integers(1, 13)).tolist(), 3] for _ in range(2))
        for _ in range(COUNT)
    ]


@pytest.fixture(scope="module")
def model():
    return Transformer(
        ModelConfig(VOCABULARY, num_layers=2, model_dim=14, feed_forward_dim=22, num_heads=2, key_dim=5, value_dim=3)
    )


def token_losses(model, inputs, labels):
    logits = np.asarray(model(inputs), np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -np.take_along_axis(log_probabilities, labels[..., None], axis=-1)[..., 0]


@pytest.fixture(scope="module")
def alone(model):
    """The loss of each pair by itself, by its ids."""
    losses = {}
    for source, target in random_pairs():
        inputs = {"source": np.array([source], np.int32), "target": np.array([[2, *target[:-1]]], np.int32)}
        losses[*source, -1, *target] = token_losses(model, inputs, np.array([target])).sum()
    return losses


@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_the_loss_of_a_sentence_does_not_depend_on_its_batch(model, alone, batching, tmp_path):
    prepared = ToyPrepared(tmp_path, random_pairs())
    dataset = training_dataset(prepared, BatchOptions(batch_tokens=131, batching=batching), epochs=1)
    seen = {}
    for batch in dataset.as_numpy_iterator():
        inputs = {name: array for name, array in batch.items() if name not in ("labels", "position")}
        losses = token_losses(model, inputs, batch["labels"])
        ones = {side: (batch[side] > 0).astype(int) for side in ("source", "target")}
        segments = {side: batch.get(f"{side}_segments", ones[side]) for side in ("source", "target")}
        for row in range(len(losses)):
            for segment in range(1, segments["source"][row].max() + 1):
                inside = segments["target"][row] == segment
                source = batch["source"][row][segments["source"][row] == segment]
                seen[*source, -1, *batch["labels"][row][inside]] = losses[row][inside].sum()
    assert seen.keys() == alone.keys()
    for key, loss in alone.items():
        assert seen[key] == pytest.approx(loss, rel=1e-5)
