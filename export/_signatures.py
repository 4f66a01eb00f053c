"""The signatures of an export: the translator's graph methods as functions of strings, batch first everywhere.

    serving_default   text [N]                -> translation [N]
    document          text [N]                -> translation [N], sentences [N], warnings [N]
    nbest             text [N]                -> translations [N, K], scores [N, K], truncated [N], sentences [N]
    score             source [N], target [N]  -> score [N], tokens [N], sentences [N]
    attention         text [N]                -> source and target tokens, cross-attention weights, sentences [N]
    alignment         text [N]                -> translation [N], words and offsets, confidences, links, sentences [N]
    segments          text [N]                -> segments [N, S], separators [N, S + 1]
    model_card        text [N]                -> model_card [N], JSON text, whatever the input
    translate_to      text [N], target_language [N] -> translation [N]; of multilingual models

Without segmentation there is no `document`, no `segments`, and no output `sentences`.

Options of the search are part of the graph: TensorFlow Serving's REST interface ignores default values of inputs,
so an option could only be a signature of its own.
"""

from collections.abc import Callable, Container
from typing import Any

import tensorflow as tf

INPUTS = {
    "serving_default": ("text",),
    "document": ("text",),
    "nbest": ("text",),
    "score": ("source", "target"),
    "attention": ("text",),
    "alignment": ("text",),
    "segments": ("text",),
    "model_card": ("text",),
    "translate_to": ("text", "target_language"),
}


def trace_signatures(
    translator: Any,
    nbest: int | None = None,
    segmentation: bool = True,
    card: str | None = None,
    only: Container[str] | None = None,
) -> dict[str, tf.types.experimental.ConcreteFunction]:
    """The signatures by name, traced once each for any number of rows.

    Args:
        translator: a `Translator`, or anything with its graph methods `translate`, `document`, `nbest`, `score`,
            `attention`, `alignment`, `segments`.
        nbest: how many translations per row `nbest` returns, at most as many as there are beams; None: all.
        segmentation: whether there are the signatures `document` and `segments`.
        card: what the signature `model_card` answers; None: there is no such signature.
        only: names of signatures to trace; None: all.
    """
    methods = {
        "serving_default": translator.translate,
        "nbest": lambda text: _first(translator.nbest(text), nbest),
        "score": translator.score,
        "attention": translator.attention,
        "alignment": translator.alignment,
        **({"document": translator.document, "segments": translator.segments} if segmentation else {}),
        **({} if card is None else {"model_card": lambda text: _constant(text, card)}),
        **({} if getattr(translator, "languages", None) is None else {"translate_to": translator.translate_to}),
    }
    return {name: _trace(name, method) for name, method in methods.items() if only is None or name in only}


def _trace(name: str, method: Callable[..., dict[str, tf.Tensor]]) -> tf.types.experimental.ConcreteFunction:
    names = INPUTS[name]

    def serve(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        # The server itself accepts scalars and matrices.
        columns = [tf.ensure_shape(text, [None]) for text in texts]
        with tf.control_dependencies(_same_size(names, columns)):
            columns = [tf.identity(column) for column in columns]
        return {key: _batch_first(value) for key, value in method(*columns).items()}

    specs = [tf.TensorSpec([None], tf.string, input_name) for input_name in names]
    return tf.function(serve, input_signature=specs, autograph=False).get_concrete_function()


def _constant(text: tf.Tensor, card: str) -> dict[str, tf.Tensor]:
    """The card in every row: a server cannot pass on a scalar, and batches it with other requests."""
    return {"model_card": tf.fill(tf.shape(text), card)}


def _first(found: dict[str, tf.Tensor], nbest: int | None) -> dict[str, tf.Tensor]:
    return {name: value[:, :nbest] if value.shape.rank == 2 else value for name, value in found.items()}


def _same_size(names: tuple[str, ...], texts: list[tf.Tensor]) -> list:
    """The check that all inputs have as many rows as the first."""
    message = f"{' and '.join(names)} must have the same number of rows"
    return [tf.debugging.assert_equal(tf.size(text), tf.size(texts[0]), message) for text in texts[1:]]


def _batch_first(value: tf.Tensor) -> tf.Tensor:
    """`value` with a first dimension that is known to be the batch, whose size is free."""
    return tf.ensure_shape(value, [None, *value.shape[1:]])
