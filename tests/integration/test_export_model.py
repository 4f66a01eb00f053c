"""A model trained with `fit` becomes a SavedModel that accepts strings, in one call."""

import dataclasses
import json

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of the tokenizer
from toy_workdir import TOY, toy_sentences, toy_tokenizers

from tf_transformer import LabelSmoothedCrossEntropy, Transformer, Translator
from tf_transformer.config import DecodingConfig
from tf_transformer.export import export_model


def test_a_model_after_fit(tmp_path):
    tokenizers = toy_tokenizers()
    ids = [tokenizers.source.encode(text) for text in toy_sentences(8)]
    labels = np.zeros((8, max(map(len, ids))), "int32")
    for row, sentence in zip(labels, ids):
        row[: len(sentence)] = sentence
    start = np.full((8, 1), TOY.bos_id, "int32")
    inputs = {"source": labels, "target": np.concatenate([start, labels[:, :-1]], axis=1)}
    # One layer: the graphs of the export take less of the memory of the test process.
    config = dataclasses.replace(TOY, num_layers=1, num_decoder_layers=1, vocab_size=tokenizers.source.vocab_size)
    model = Transformer(config)
    model.compile(keras.optimizers.Adam(0.01), loss=LabelSmoothedCrossEntropy(0.1))
    model.fit(inputs, labels, batch_size=4, epochs=2, verbose=0)
    options = {"beam_size": 2, "max_source_length": 31, "max_extra_length": 5, "failure_detection": False}

    export = export_model(model, tokenizers, tmp_path / "models", languages=("en", "de"), **options)

    assert export.path == tmp_path / "models" / "1"
    card = json.loads((export.path / "model.json").read_text())
    assert card["languages"] == {"source": "en", "target": "de"} and card["checkpoint"]["step"] == 4
    texts = [*toy_sentences(5, seed=3), ""]
    exported = tf.saved_model.load(str(export.path))
    found = exported.signatures["serving_default"](text=tf.constant(texts))["translation"]
    translator = Translator(model, tokenizers, DecodingConfig(**options))
    assert [text.decode() for text in found.numpy()] == translator(texts)
