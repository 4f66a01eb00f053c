"""The model learns: to copy and to reverse, each above 99 % of whole sequences, on held-out ones."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from training_toys import ToyTraining

pytestmark = pytest.mark.slow

WORDS, LENGTH, ROWS = 17, 11, 64
BOS, EOS, FIRST = 2, 3, 4
MODEL = {
    "vocab_size": FIRST + WORDS, "num_layers": 2, "model_dim": 64, "feed_forward_dim": 128, "num_heads": 4,
    "key_dim": 16, "value_dim": 16,
}  # fmt: skip
TRAINING = {"warmup_steps": 400, "learning_rate_scale": 0.4, "label_smoothing": 0.0}


def sequences(random, rows: int, backwards: bool) -> dict[str, np.ndarray]:
    """Random words of random lengths, and the same words to be written, forwards or backwards."""
    source = np.zeros((rows, LENGTH + 1), np.int32)
    target, labels = source.copy(), source.copy()
    for row in range(rows):
        words = random.integers(FIRST, FIRST + WORDS, random.integers(1, LENGTH + 1))
        written = words[::-1] if backwards else words
        source[row, : len(words) + 1] = [*words, EOS]
        target[row, : len(words) + 1] = [BOS, *written]
        labels[row, : len(words) + 1] = [*written, EOS]
    return {"source": source, "target": target, "labels": labels}


def written(model, source: np.ndarray) -> np.ndarray:
    """Greedy translation, token by token, without the search of the package."""
    target = np.full((len(source), 1), BOS, np.int32)
    call = tf.function(lambda source, target: model({"source": source, "target": target}), reduce_retracing=True)
    for _ in range(LENGTH + 1):
        logits = call(tf.constant(source), tf.constant(target))
        target = np.concatenate([target, np.argmax(logits[:, -1:], axis=-1).astype(np.int32)], axis=1)
    return target[:, 1:]


def correct(found: np.ndarray, labels: np.ndarray) -> float:
    """The share of rows that are right up to and with the end."""
    return float(np.mean(np.all((found == labels) | (labels == 0), axis=1)))


@pytest.mark.parametrize("backwards", [False, True], ids=["copy", "reverse"])
def test_learns_to_copy_and_to_reverse(backwards):
    random = np.random.default_rng(5)
    toy = ToyTraining(model=MODEL, training=TRAINING)
    glorot = type(toy.model)(dataclasses.replace(toy.model.config)).get_weights()
    toy.model.set_weights(glorot)
    last = []
    for _ in range(120):
        toy.train([sequences(random, ROWS, backwards) for _ in range(25)])
        last = [*last, toy.model.get_weights()][-10:]
    # As in the paper: at a learning rate that never ends the last weights swing, and their average does not.
    toy.model.set_weights([np.mean(values, axis=0) for values in zip(*last)])
    held_out = sequences(np.random.default_rng(99), 300, backwards)
    assert correct(written(toy.model, held_out["source"]), held_out["labels"]) > 0.99
