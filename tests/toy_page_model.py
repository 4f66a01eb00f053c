"""A SavedModel for the translation page: real segmentation, and translations that are the words in capitals, reversed.

"the old dog" becomes "DOG OLD THE", with one link per word. Words with "perhaps" have a confidence of 0.1, others 0.9.
A sentence with "endless" has the warning `split`, one with "odd" a code that nobody knows.
"""

import json
import pathlib

import tensorflow as tf

from tf_transformer.decoding._documents import count_sentences, padded_segments
from tf_transformer.export._publishing import checksums
from tf_transformer.text import Segmenter

TEXT = tf.TensorSpec([None], tf.string, name="text")
ALL = ("serving_default", "document", "segments", "nbest", "alignment", "model_card")


class PageModel(tf.Module):
    """The signatures that the page uses; `card` is what `model_card` answers."""

    def __init__(self, card: dict):
        super().__init__()
        self.segmenter = Segmenter("en")
        self.card = json.dumps(card)

    def upper(self, text):
        words = tf.strings.split(tf.strings.upper(text, encoding="utf-8"))
        return tf.strings.reduce_join(tf.reverse(words, [1]), axis=1, separator=" ")

    @tf.function(input_signature=[TEXT])
    def serving_default(self, text):
        return {"translation": self.upper(text)}

    @tf.function(input_signature=[TEXT])
    def document(self, text):
        flags = {"split": "endless", "misunderstood": "odd"}
        codes = [
            tf.where(tf.strings.regex_full_match(text, f".*{word}.*"), f"{code},", "") for code, word in flags.items()
        ]
        warnings = tf.strings.regex_replace(tf.strings.join(codes), ",$", "")
        return {
            "translation": self.upper(text),
            "sentences": count_sentences(self.segmenter.segment(text)),
            "warnings": warnings,
        }

    @tf.function(input_signature=[TEXT])
    def segments(self, text):
        return padded_segments(self.segmenter, text)

    @tf.function(input_signature=[TEXT])
    def nbest(self, text):
        best = self.upper(text)
        translations = tf.stack(
            [best, tf.strings.join(["TWO ", best]), tf.strings.join(["<b>THREE</b> ", best])], axis=1
        )
        return {
            "translations": translations,
            "scores": tf.ones_like(translations, tf.float32) * -tf.constant([0.5, 1.5, 2.5]),
            "truncated": tf.zeros_like(text, tf.bool),
            "sentences": count_sentences(self.segmenter.segment(text)),
        }

    @tf.function(input_signature=[TEXT])
    def alignment(self, text):
        words = tf.strings.split(text)
        reverse = tf.reverse(words, [1])
        targets = reverse.with_flat_values(tf.strings.upper(reverse.flat_values, encoding="utf-8"))
        numbers = tf.ragged.range(words.row_lengths())
        opposite = tf.reverse(numbers, [1])
        doubtful = tf.strings.regex_full_match(targets.flat_values, ".*PERHAPS.*")
        links = tf.stack([numbers.flat_values, opposite.flat_values], axis=1)
        return {
            "translation": self.upper(text),
            **_words("source", words),
            **_words("target", targets),
            "confidences": targets.with_flat_values(tf.where(doubtful, 0.1, 0.9)).to_tensor(0.0),
            "links": tf.cast(numbers.with_flat_values(links).to_tensor(-1), tf.int32),
        }

    @tf.function(input_signature=[TEXT, tf.TensorSpec([None], tf.string, name="target_language")])
    def translate_to(self, text, target_language):
        return {"translation": tf.strings.join([target_language, self.upper(text)], ": ")}

    @tf.function(input_signature=[TEXT])
    def model_card(self, text):
        return {"model_card": tf.fill(tf.shape(text), self.card)}


def _words(side, words):
    """Words with one space between them, and their offsets in code points."""
    lengths = words.with_flat_values(tf.strings.length(words.flat_values, unit="UTF8_CHAR"))
    padded = (lengths + 1).to_tensor(0)
    ends = tf.cumsum(padded, axis=1) - 1
    mask = tf.sequence_mask(words.row_lengths())
    return {
        f"{side}_words": words.to_tensor(""),
        f"{side}_starts": tf.where(mask, ends + 1 - padded, -1),
        f"{side}_ends": tf.where(mask, ends, -1),
    }


def write_page_model(directory, languages=("en", "de"), signatures=ALL, targets=()) -> None:
    """Writes it to `directory` (MODEL_BASE/<version>); with `targets` it is multilingual."""
    card = {
        "format": 1,
        "languages": dict(zip(("source", "target"), languages)) | ({"targets": targets} if targets else {}),
        "preset": "toy",
        "parameters": 30_011,
        "licence": "CC-BY <b>4.0</b>",
        "scores": [{"test_set": "test", "decoding": {}, "scores": [{"name": "sacreBLEU", "score": 41.5}]}],
    }
    model = PageModel(card)
    signatures = [*signatures, "translate_to"] if targets else signatures
    tf.saved_model.save(model, str(directory), signatures={name: getattr(model, name) for name in signatures})
    files = {"files": checksums(pathlib.Path(directory))}
    (pathlib.Path(directory) / "model.json").write_text(json.dumps(card | files))
