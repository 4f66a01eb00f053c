"""The one translator that `translate`, `evaluate`, the export and Python share: strings in, strings out."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

import tensorflow as tf

from tf_transformer.config import DecodingConfig
from tf_transformer.decoding._batching import in_batches
from tf_transformer.decoding._options import Hypotheses, SearchOptions
from tf_transformer.decoding._sampling import SamplingOptions
from tf_transformer.decoding._search import Ids, check_tokenizers, score_ids, search_ids, text_to_ids
from tf_transformer.model import Transformer
from tf_transformer.text import TokenizerPair


class Translation(NamedTuple):
    """What is known of one sentence.

    texts: its translations, from the best on.
    scores: their log-probabilities.
    truncated: whether the sentence was too long and cut.
    """

    texts: list[str]
    scores: list[float]
    truncated: bool


class PairScore(NamedTuple):
    """What a model says of one target given its source.

    log_prob: the natural logarithm of its probability.
    tokens: how many it has, EOS counted.
    truncated: whether source or target was too long and cut; None where the model does not tell, as an export.
    """

    log_prob: float
    tokens: int
    truncated: bool | None


def count_truncated(pairs: Iterable[PairScore]) -> int | None:
    """How many pairs were cut; None where the model does not tell."""
    cut = [pair.truncated for pair in pairs]
    return None if None in cut else sum(cut)


def to_translations(found) -> list[Translation]:
    """The rows of what `Translator.nbest` returns."""
    columns = (found[name].numpy() for name in ("translations", "scores", "truncated"))
    return [
        Translation([text.decode("utf-8") for text in texts], scores.tolist(), bool(truncated))
        for texts, scores, truncated in zip(*columns)
    ]


def to_bytes(texts: Iterable[str | bytes], name: str) -> list[bytes]:
    """Texts as bytes. Lone surrogates become bytes that are not UTF-8, which the tokenizer replaces."""
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"{name} must be a list of strings, not one string; put it into a list.")
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, (str, bytes)):
            raise ValueError(f"{name} must hold strings; {name}[{index}] is of type {type(text).__name__}. Convert it.")
    return [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts]


TEXT = tf.TensorSpec([None], tf.string)


class Translator(tf.Module):
    """A model with its tokenizers and a search.

    The methods `translate`, `nbest`, `score` and `attention` are graph functions of string tensors, which the export
    makes signatures of. Each row is independent of its neighbours. A source with nothing in it gives "".

    Args:
        model: a `Transformer`; its weights may change between calls.
        tokenizers: those it was trained with.
        decoding: the search.

    Example:
        translator = Translator.from_workdir("run", beam_size=5)
        translator(["Hello world."])
    """

    def __init__(self, model: Transformer, tokenizers: TokenizerPair, decoding: DecodingConfig | None = None):
        super().__init__(name="translator")
        check_tokenizers(model.config, tokenizers)
        self.decoding = decoding or DecodingConfig()
        self.model = model
        self.source_tokenizer, self.target_tokenizer = tokenizers.source, tokenizers.target
        # Not a dictionary: TensorFlow would follow it and write the functions into every export.
        self._function = functools.cache(self._traced_function)

    @classmethod
    def from_workdir(cls, path: str | os.PathLike, checkpoint: str | os.PathLike = "auto", **decoding) -> "Translator":
        """The translator of a work directory. `decoding` are fields of `DecodingConfig` to change."""
        from tf_transformer.workdir import Workdir

        workdir = Workdir(path)
        config = dataclasses.replace(workdir.config.decoding, **decoding)
        return cls(workdir.load_model(checkpoint, for_inference=True), workdir.tokenizers, config)

    def __call__(self, texts: Iterable[str | bytes], prefixes: Iterable[str | bytes] | None = None) -> list[str]:
        """The best translation of each text, in their order. `prefixes` are what the translations must begin with."""

        def rows(found):
            return [text.decode("utf-8") for text in found["translation"].numpy()]

        return self._rows("translate", rows, texts=texts, **_given(prefixes=prefixes))

    def best(self, texts: Iterable[str | bytes]) -> list[Translation]:
        """The best translation of each text, in their order, without a score, and whether the text was cut."""

        def rows(found):
            pairs = zip(found["translation"].numpy(), found["truncated"].numpy())
            return [Translation([text.decode("utf-8")], [], bool(cut)) for text, cut in pairs]

        return self._rows("_best", rows, texts=texts)

    def n_best(self, texts: Iterable[str | bytes], prefixes: Iterable[str | bytes] | None = None) -> list[Translation]:
        """The K translations of each text, in their order, with scores and whether the text was cut."""
        return self._rows("nbest", to_translations, texts=texts, **_given(prefixes=prefixes))

    def scores(self, sources: Iterable[str | bytes], targets: Iterable[str | bytes]) -> list[tuple[float, int]]:
        """The log-probability of each target given its source, and the number of its tokens, EOS counted.

        It is computed in the model's own precision; a search is in float32 whatever that is.
        """
        return [(found.log_prob, found.tokens) for found in self.pair_scores(sources, targets)]

    def pair_scores(self, sources: Iterable[str | bytes], targets: Iterable[str | bytes]) -> list[PairScore]:
        """What `scores` gives, and whether one side of the pair was cut."""

        def rows(found):
            columns = (found[name].numpy().tolist() for name in ("score", "tokens", "truncated"))
            return [PairScore(*row) for row in zip(*columns)]

        return self._rows("_score", rows, sources=sources, targets=targets)

    def translate(self, text, prefix=None):
        """[N] string -> {"translation": [N] string}. `prefix`, [N] string, is what each must begin with."""
        return {"translation": self._best(text, prefix)["translation"]}

    def nbest(self, text, prefix=None):
        """[N] string -> {"translations": [N, K], "scores": [N, K] float32, "truncated": [N] bool}.

        Scores are log-probabilities of the ids, as `score` gives them for finished ones. The order is that of the
        search, which divides them by the length penalty first; so they need not fall from left to right.
        """
        source, forced = self._read(text), self._read_prefix(prefix)
        found = self._search(source, text, prefix=forced)
        shape = tf.shape(found.lengths)
        flat = tf.reshape(found.ids, [shape[0] * shape[1], tf.shape(found.ids)[2]])
        texts = tf.reshape(self.target_tokenizer.detokenize(flat), shape)
        scores = tf.where(found.lengths > 0, found.log_probs, -1e9)
        scores = tf.where(source.empty[:, None], 0.0, scores)
        texts, scores = (tf.ensure_shape(tensor, [None, self.decoding.beam_size]) for tensor in (texts, scores))
        return {"translations": texts, "scores": scores, "truncated": _truncated(source, forced)}

    def score(self, source, target):
        """[N] string twice -> {"score": [N] float32, "tokens": [N] int32}: log-probability and length with EOS."""
        found = self._score(source, target)
        return {name: found[name] for name in ("score", "tokens")}

    def attention(self, text):
        """What the decoder looked at while it wrote the best translation.

        [N] string -> {"source_tokens": [N, S] string, "target_tokens": [N, T] string, "attention": [N, layers, H, T, S]
        float32}. Row t of the weights is the step that wrote target token t. Padding has the token "".
        """
        source = self._read(text)
        found = self._search(source, text, n_best=1)
        target = found.ids[:, 0]
        start = tf.fill([tf.shape(target)[0], 1], self.model.config.bos_id)
        inputs = tf.concat([start, target[:, :-1]], axis=1)[:, : tf.shape(target)[1]]
        _, weights = self.model({"source": source.ids, "target": inputs}, training=False, return_attention_scores=True)
        lengths = found.lengths[:, 0]
        stacked = tf.cast(tf.stack(weights["cross"], axis=1), tf.float32)
        written = tf.range(tf.shape(target)[1]) < lengths[:, None]
        return {
            "source_tokens": _tokens(self.source_tokenizer, source.ids, source.lengths),
            "target_tokens": _tokens(self.target_tokenizer, target, lengths),
            "attention": tf.where(written[:, None, None, :, None], stacked, 0.0),
        }

    def _best(self, text, prefix=None):
        """What `translate` gives, and "truncated" [N] bool. It stops earlier than `nbest`, which waits for all K."""
        source, forced = self._read(text), self._read_prefix(prefix)
        found = self._search(source, text, n_best=1, prefix=forced)
        texts = self.target_tokenizer.detokenize(found.ids[:, 0])
        return {"translation": texts, "truncated": _truncated(source, forced)}

    def _score(self, source, target):
        """What `score` gives, and "truncated" [N] bool: whether source or target was cut."""
        source = self._read(source)
        target = text_to_ids(target, self.target_tokenizer, self.longest_target)
        score = score_ids(self.model, source.ids, target.ids, target.lengths)
        score = tf.where(source.empty & target.empty, 0.0, score)
        return {"score": score, "tokens": target.lengths, "truncated": _truncated(source, target)}

    def _read(self, text) -> Ids:
        return text_to_ids(text, self.source_tokenizer, self.longest_source)

    def _read_prefix(self, prefix) -> Ids | None:
        """The ids of what each translation begins with; EOS, the last of them, is not part of it."""
        return None if prefix is None else text_to_ids(prefix, self.target_tokenizer, self.longest_target - 1)

    @property
    def longest_source(self) -> int:
        """Tokens of a source, EOS counted; what is longer is cut."""
        return self._within_positions(self.decoding.max_source_length)

    @property
    def longest_target(self) -> int:
        """Tokens of a translation, EOS counted."""
        return self._within_positions(self.decoding.max_source_length + self.decoding.max_extra_length)

    def _within_positions(self, length: int) -> int:
        return min(length, self.model.config.max_positions) if self.model.config.positions == "learned" else length

    def _search(self, source: Ids, text=None, n_best=None, prefix: Ids | None = None) -> Hypotheses:
        config = self.decoding
        longest = tf.minimum(source.lengths + config.max_extra_length, self.longest_target)
        rows = {"source": source.ids, "lengths": source.lengths}
        if prefix is not None:
            rows |= {"prefix": prefix.ids, "prefix_lengths": prefix.lengths - 1}
            longest = tf.maximum(longest, prefix.lengths)
        rows["max_lengths"] = tf.where(source.empty, 0, longest)
        if not config.sampling:
            return search_ids(self.model, rows, self._options(n_best))
        hashes = tf.cast(tf.strings.to_hash_bucket_fast(text, 2**31 - 1), tf.int32)
        rows["seeds"] = tf.stack([tf.fill(tf.shape(hashes), config.seed), hashes], axis=1)
        sampling = SamplingOptions(config.temperature, config.top_k, config.top_p)
        return search_ids(self.model, rows, self._options(n_best), sampling)

    def _options(self, n_best) -> SearchOptions:
        config, model = self.decoding, self.model.config
        return SearchOptions(
            eos_id=model.eos_id,
            pad_id=model.pad_id,
            beam_size=1 if config.sampling and n_best else config.beam_size,
            n_best=None if config.sampling else n_best,
            length_penalty=config.length_penalty,
            alpha=config.alpha,
            min_length=config.min_length,
            no_repeat_ngram=config.no_repeat_ngram,
            coverage_penalty=config.coverage_penalty,
            diversity=config.diversity,
            forbidden_ids=tuple(sorted({model.pad_id, model.bos_id})),
        )

    def _rows(self, name, rows, **columns) -> list:
        """What a graph method returns for texts of any number, sorted into batches by length and back."""
        columns = {label: to_bytes(column, label) for label, column in columns.items()}
        sizes = {label: len(column) for label, column in columns.items()}
        if len(set(sizes.values())) > 1:
            told = " and ".join(f"{size} {label}" for label, size in sizes.items())
            raise ValueError(f"There must be as many {' as '.join(columns)}; got {told}.")
        function = self._function(name, len(columns))
        return in_batches(lambda *batch: rows(function(*map(tf.constant, batch))), *columns.values())

    def _traced_function(self, name: str, inputs: int) -> Callable:
        """A graph method as a TensorFlow function that is traced once, whatever the shapes."""
        return tf.function(getattr(self, name), input_signature=[TEXT] * inputs, autograph=False)


def _given(**arguments) -> dict:
    return {name: value for name, value in arguments.items() if value is not None}


def _truncated(source: Ids, target: Ids | None):
    """Whether one side was cut: [N] bool."""
    return source.truncated if target is None else source.truncated | target.truncated


def _tokens(tokenizer, ids, lengths):
    """The pieces (N, S) string of ids, "" for padding."""
    return tf.where(tf.range(tf.shape(ids)[1]) < lengths[:, None], tokenizer.piece_strings(ids), "")
