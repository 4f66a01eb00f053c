"""A toy that has learned a little: enough to write sentences of many lengths and to end them."""

import keras
import numpy as np
import tensorflow as tf
from toy_workdir import toy_sentences

from tf_transformer.model import Transformer
from tf_transformer.workdir._weights import model_tensors
from tf_transformer.workdir._workdir import Workdir
from tf_transformer.workdir.checkpoints import save_checkpoint


def padded(rows: list[list[int]]) -> np.ndarray:
    longest = max(map(len, rows))
    return np.array([row + [0] * (longest - len(row)) for row in rows], np.int32)


def train_toy(workdir: Workdir, steps: int) -> None:
    """Trains the model of `workdir` to write sentences backwards, and keeps it as the checkpoint "average"."""
    model = Transformer(workdir.config.model)
    optimizer = keras.optimizers.Adam(0.003)
    optimizer.build(model.trainable_variables)

    @tf.function
    def update(source, target, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model({"source": source, "target": target}))
            loss = tf.reduce_mean(losses[labels != 0])
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    sources = workdir.tokenizers.source.encode_batch(toy_sentences(2048, seed=2))
    reversed_ = [[*ids[-2::-1], ids[-1]] for ids in sources]
    columns = padded(sources), padded([[2, *ids[:-1]] for ids in reversed_]), padded(reversed_)
    for step in range(steps):
        rows = np.random.default_rng(step).integers(0, len(sources), 32)
        update(*(tf.constant(column[rows]) for column in columns))
    save_checkpoint(workdir.checkpoints / "average", model_tensors(model), step=steps)
