"""A sentence's loss is the same alone, in a bucket and in a packed row."""

import types

import numpy as np
import pytest

from tf_transformer.config import ModelConfig
from tf_transformer.data._assembly import SpecialIds
from tf_transformer.data._batching import BatchOptions, BatchStream
from tf_transformer.model import Transformer

VOCABULARY, COUNT = 53, 31


class RandomExamples:
    """Pairs of random ids that are all different."""

    def __init__(self):
        chance = np.random.default_rng(17)
        self.pairs = [
            tuple(np.append(chance.integers(4, VOCABULARY, chance.integers(1, 13)), 3) for _ in range(2))
            for _ in range(COUNT)
        ]
        self.lengths = np.array([[len(s), len(t)] for s, t in self.pairs], np.int32)

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return self.pairs[index]


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
    for source, target in RandomExamples().pairs:
        inputs = {"source": source[None].astype(np.int32), "target": np.array([[2, *target[:-1]]], np.int32)}
        losses[*source, -1, *target] = token_losses(model, inputs, target[None]).sum()
    return losses


@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_the_loss_of_a_sentence_does_not_depend_on_its_batch(model, alone, batching):
    prepared = types.SimpleNamespace(examples=RandomExamples(), special_ids=SpecialIds(), path="prepared")
    stream = BatchStream(prepared, BatchOptions(batch_tokens=131, batching=batching, prefetch=0))
    seen = {}
    for batch, position in stream.batches():
        if position["epoch"]:
            break
        inputs = {name: array for name, array in batch.items() if name != "labels"}
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
