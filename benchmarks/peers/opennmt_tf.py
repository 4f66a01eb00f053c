"""OpenNMT-tf: beam search, and a training step with label smoothing and Adam."""

import argparse
import os
import pathlib
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import opennmt
import tensorflow as tf

from benchmarks.peers.measurement import parse, report


def main() -> None:
    options = parse()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    words = ["<blank>", "<s>", "</s>", *(f"w{i}" for i in range(options.vocab - 4))]
    with tempfile.TemporaryDirectory() as folder:
        model = build(options, words, pathlib.Path(folder) / "words.txt")
        if options.only != "train":
            measure_decoding(model, words, options)
        if options.only != "decode":
            measure_training(model, options)


def build(options: argparse.Namespace, words: list[str], vocabulary: pathlib.Path) -> opennmt.models.Transformer:
    """A Transformer of the given size with random weights and one shared embedding."""
    vocabulary.write_text("\n".join(words) + "\n", encoding="utf-8")
    embedders = [opennmt.inputters.WordEmbedder(embedding_size=options.width) for _ in range(2)]
    model = opennmt.models.Transformer(
        *embedders, num_layers=options.layers, num_units=options.width, num_heads=options.heads,
        ffn_inner_dim=options.inner, dropout=0.1, pre_norm=False,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )  # fmt: skip
    model.initialize(
        {"source_vocabulary": str(vocabulary), "target_vocabulary": str(vocabulary)},
        params={
            "beam_width": options.beam, "length_penalty": 0.6, "label_smoothing": 0.1,
            "minimum_decoding_length": options.target, "maximum_decoding_length": options.target,
        },
    )  # fmt: skip
    model.create_variables()
    return model


def random_ids(rows: int, length: int, size: int) -> np.ndarray:
    return np.random.RandomState(0).randint(4, size - 2, (rows, length))


def measure_decoding(model: opennmt.models.Transformer, words: list[str], options: argparse.Namespace) -> None:
    source = random_ids(options.batch, options.source, options.vocab)
    features = {
        "ids": tf.constant(source, tf.int64),
        "length": tf.fill([options.batch], options.source),
        "tokens": tf.constant([[words[i] for i in row] for row in source]),
    }
    infer = tf.function(model.infer)
    tokens = options.batch * options.target
    report("opennmt_tf", "decode", tokens, lambda: infer(features)["log_probs"].numpy(), options)


def measure_training(model: opennmt.models.Transformer, options: argparse.Namespace) -> None:
    rows, length = options.train_batch, options.train_length
    ids = tf.constant(random_ids(rows, length, options.vocab), tf.int64)
    features = {"ids": ids, "length": tf.fill([rows], length)}
    labels = {"ids": ids, "ids_out": ids, "length": tf.fill([rows], length)}
    adam = tf.keras.optimizers.legacy.Adam(1e-4, 0.9, 0.98, 1e-9)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            outputs, _ = model(features, labels, training=True, step=tf.constant(1))
            loss = model.compute_loss(outputs, labels, training=True)
            loss = loss[0] / loss[1] if isinstance(loss, tuple) else loss
        adam.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    report("opennmt_tf", "train", rows * length, lambda: step().numpy(), options)


if __name__ == "__main__":
    main()
