"""A SavedModel with the signatures of an export and arithmetic anyone can do in their head.

`serving_default` turns "ab" into "<mark>AB"; `nbest` does so three times with falling scores; `score` adds the
lengths of source and target; `attention` and `alignment` have sizes that depend on the batch, and every letter is a
word; `segments` finds one sentence; `strict` fails on the row "bad"; `slow` waits for a file first; `raw` answers with
bytes that are not text.
"""

import json
import pathlib

import tensorflow as tf

from tf_transformer.export import _publishing as publishing

TEXT = tf.TensorSpec([None], tf.string, name="text")
SOURCE = tf.TensorSpec([None], tf.string, name="source")
TARGET = tf.TensorSpec([None], tf.string, name="target")
WEIGHT = 2.0


class Toy(tf.Module):
    """The toy: `mark` tells versions apart, `release` is the file that `slow` waits for, if any."""

    def __init__(self, mark: str = "", release: pathlib.Path | None = None, weight: float = WEIGHT):
        super().__init__()
        self.mark = tf.constant(mark)
        self.release = release
        self.weight = tf.Variable([weight] * 7, name="weight")

    def upper(self, text):
        return tf.strings.join([self.mark, tf.strings.upper(tf.ensure_shape(text, [None]), encoding="utf-8")])

    @tf.function(input_signature=[TEXT])
    def translate(self, text):
        return {"translation": self.upper(text)}

    @tf.function(input_signature=[TEXT])
    def document(self, text):
        return {"translation": self.upper(text), "sentences": tf.strings.length(text), "warnings": tf.zeros_like(text)}

    @tf.function(input_signature=[TEXT])
    def nbest(self, text):
        best = tf.tile(self.upper(text)[:, None], [1, 3])
        scores = tf.ones(tf.shape(best)) * -tf.constant([0.1, 0.2, 0.3])
        return {
            "translations": tf.ensure_shape(best, [None, 3]),
            "scores": tf.ensure_shape(scores, [None, 3]),
            "truncated": tf.strings.length(text) > 5,
        }

    @tf.function(input_signature=[SOURCE, TARGET])
    def score(self, source, target):
        total = tf.cast(tf.strings.length(source) + tf.strings.length(target), tf.float32)
        return {"score": total * self.weight[0], "tokens": tf.strings.length(target)}

    @tf.function(input_signature=[TEXT])
    def attention(self, text):
        letters = tf.strings.bytes_split(text).to_tensor()
        return {"tokens": letters, "weights": tf.cast(tf.strings.length(letters), tf.float32)}

    @tf.function(input_signature=[TEXT])
    def segments(self, text):
        return {"segments": text[:, None], "separators": tf.fill([tf.size(text), 2], "")}

    @tf.function(input_signature=[TEXT])
    def alignment(self, text):
        letters = tf.strings.bytes_split(text).to_tensor()
        there = letters != ""
        starts = tf.where(there, tf.range(tf.shape(letters)[1])[None], -1)
        ends = tf.where(there, starts + 1, -1)
        words = {f"{side}_{name}": value for side in ("source", "target") for name, value in
                 (("words", letters), ("starts", starts), ("ends", ends))}  # fmt: skip
        confidences = tf.where(there, 0.5, 0.0)
        return {"translation": self.upper(text)} | words | {
            "confidences": confidences, "links": tf.stack([starts, starts], axis=2)
        }  # fmt: skip

    @tf.function(input_signature=[TEXT])
    def strict(self, text):
        with tf.control_dependencies([tf.debugging.assert_none_equal(text, "bad", message="a bad row")]):
            return {"translation": tf.identity(self.upper(text))}

    @tf.function(input_signature=[TEXT])
    def slow(self, text):
        if self.release is None:
            return {"translation": self.upper(text)}

        def look(_, turn):
            # A name that depends on the turn: TensorFlow would look for a constant one only once.
            name = tf.strings.join([str(self.release), tf.strings.substr(tf.as_string(turn), 0, 0)])
            return tf.size(tf.io.matching_files(name)), turn + 1

        released, _ = tf.while_loop(lambda files, _: files < 1, look, [tf.constant(0), tf.constant(0)])
        with tf.control_dependencies([released]):
            return {"translation": tf.identity(self.upper(text))}

    @tf.function(input_signature=[TEXT])
    def raw(self, text):
        return {"text_bytes": tf.strings.join([text, "\xff".encode("latin-1")])}

    def signatures(self):
        return {
            "serving_default": self.translate,
            "document": self.document,
            "nbest": self.nbest,
            "score": self.score,
            "attention": self.attention,
            "segments": self.segments,
            "alignment": self.alignment,
            "strict": self.strict,
            "slow": self.slow,
            "raw": self.raw,
        }


def write_toy(directory, mark: str = "", checksums: bool = True, **options) -> Toy:
    """Writes a Toy to `directory` (MODEL_BASE/<version>), with or without an export's checksums, and returns it."""
    toy = Toy(mark, **options)
    tf.saved_model.save(toy, str(directory), signatures=toy.signatures())
    if checksums:
        card = {"files": publishing.checksums(pathlib.Path(directory))}
        (pathlib.Path(directory) / "model.json").write_text(json.dumps(card))
    return toy
