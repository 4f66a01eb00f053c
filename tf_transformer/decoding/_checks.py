"""Checks of translations: repetition, length and coverage.

A translation that fails a check is searched again with constraints, and the better of the two is kept: see
`CheckedSearch`.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding._alignment import force
from tf_transformer.decoding._batching import search_in_batches
from tf_transformer.decoding._documents import CHECKS, COVERAGE, LENGTH, REPETITION
from tf_transformer.decoding._options import Hypotheses, SearchOptions
from tf_transformer.decoding._search import search_batch
from tf_transformer.decoding._shortlist import CandidateTable
from tf_transformer.model import Transformer

_REPEATS = {2: 3, 3: 2}
"""A loop has an n-gram so many times more often than the source has any n-gram."""

_COVERED = 0.3
"""A source position with less attention than this, summed over all steps, is not covered."""
_UNCOVERED_SHARE, _UNCOVERED_LEAST = 0.15, 4
"""A source has a part that is not covered if so many successive positions are not: a share of all, and a number."""

_SHORT_SHARE = 1 / 6
"""Coverage is checked in translations below this share of the usual range of lengths, and in those that look wrong."""


@dataclasses.dataclass(frozen=True)
class LengthRange:
    """Usual lengths T of translations by the length S of the source, in tokens with EOS.

    low_ratio · S + low · √S ≤ T ≤ high_ratio · S + high · √S: sums of independent lengths spread with the square root
    of their number (Gale and Church, 1993). The defaults are for models whose training data is unknown.
    """

    low_ratio: float = 0.4
    low: float = -2.0
    high_ratio: float = 2.0
    high: float = 4.0

    @classmethod
    def from_dataset(cls, info: Mapping[str, Any]) -> "LengthRange":
        """The range of the training data, from its `dataset.json`; the default if that has none."""
        facts = info.get("splits", {}).get("train", {}).get("length_ratio")
        if not facts:
            return cls()
        return cls(facts["ratio"], facts["low"], facts["ratio"], facts["high"])

    def limits(self, source_lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The shortest and the longest usual length of each row: (B,) int32 -> (B,) int32 twice, at least 1."""
        length = tf.cast(source_lengths, tf.float32)
        root = tf.sqrt(length)
        low = tf.math.ceil(self.low_ratio * length + self.low * root)
        high = tf.math.floor(self.high_ratio * length + self.high * root)
        low = tf.maximum(tf.cast(low, tf.int32), 1)
        return low, tf.maximum(tf.cast(high, tf.int32), low + 1)


def failed_checks(found: Hypotheses, rows: Mapping[str, tf.Tensor], usual: LengthRange) -> tf.Tensor:
    """The checks that the best hypothesis of each row fails, as a sum of `CHECKS`: (B,) int32.

    Args:
        found: with coverage.
        rows: "source" (B, S) int32 and "lengths" (B,) int32; "prefix_lengths" (B,) int32 if the translations have to
            begin with a prefix.
        usual: lengths of translations.
    """
    ids, lengths, source_lengths = found.ids[:, 0], found.lengths[:, 0], rows["lengths"]
    assert found.coverage is not None  # SearchOptions.track_coverage
    low, high = usual.limits(source_lengths)
    if "prefix_lengths" in rows:
        high = tf.maximum(high, rows["prefix_lengths"] + 1)
    failed = {
        REPETITION: _repeats(ids, lengths, rows["source"], source_lengths),
        LENGTH: (lengths < low) | (lengths > high) | ~found.finished[:, 0],
        COVERAGE: _has_gap(found.coverage[:, 0], source_lengths),
    }
    total = tf.add_n([tf.cast(failed[name], tf.int32) * bit for name, bit in CHECKS.items()])
    return tf.where(lengths > 0, total, 0)


def may_fail(found: Hypotheses, rows: Mapping[str, tf.Tensor], usual: LengthRange) -> tf.Tensor:
    """Which best hypotheses to check: (B,) bool; the arguments are those of `failed_checks`, without coverage.

    All that fail a check of repetition or length are among them, and those that are so short that a part of the source
    may be missing.
    """
    lengths = found.lengths[:, 0]
    low, high = usual.limits(rows["lengths"])
    shortest = low + tf.cast(_SHORT_SHARE * tf.cast(high - low, tf.float32), tf.int32)
    repeats = _repeats(found.ids[:, 0], lengths, rows["source"], rows["lengths"])
    unusual = repeats | (lengths < shortest) | (lengths > high) | ~found.finished[:, 0]
    return (lengths > 0) & unusual


def coverage_of(
    model: Transformer, memory: tf.Tensor, source: tf.Tensor, target: tf.Tensor, lengths: tf.Tensor
) -> tf.Tensor:
    """The attention to each source position, the average of all layers and heads, summed over the target: (B, S)."""
    layers, _ = force(model, source, target, with_log_probs=False, memory=memory)
    written = tf.sequence_mask(lengths, tf.shape(target)[1], tf.float32)
    average = tf.add_n([tf.reduce_mean(weights, axis=1) for weights in layers]) / len(layers)
    return tf.reduce_sum(average * written[..., None], axis=1)


def _repeats(ids: tf.Tensor, lengths: tf.Tensor, source: tf.Tensor, source_lengths: tf.Tensor) -> tf.Tensor:
    """Whether the output has an n-gram much more often than the source has any: (B,) bool."""
    ours, theirs = (_top_counts(*side, tuple(_REPEATS)) for side in ((ids, lengths), (source, source_lengths)))
    loops = [ours[n] - tf.maximum(theirs[n], 1) >= more for n, more in _REPEATS.items()]
    return tf.reduce_any(tf.stack(loops), axis=0)


def _top_counts(ids: tf.Tensor, lengths: tf.Tensor, sizes: Sequence[int]) -> dict[int, tf.Tensor]:
    """Count of the most frequent n-gram of each row, for each n of `sizes`: (B,) int32."""
    width = tf.shape(ids)[1]
    places = tf.range(width)
    ids = tf.where(places < lengths[:, None], ids, -1 - places)  # padding equals nothing but itself
    equal = ids[:, :, None] == ids[:, None]
    same, counts = equal, {}
    for n in range(2, max(sizes) + 1):
        same = same[:, :-1, :-1] & equal[:, n - 1 :, n - 1 :]
        if n in sizes:
            each = tf.reduce_sum(tf.cast(same, tf.int32), axis=2)
            counts[n] = tf.reduce_max(tf.pad(each, [[0, 0], [0, 1]]), axis=1)
    return counts


def _has_gap(coverage: tf.Tensor, source_lengths: tf.Tensor) -> tf.Tensor:
    """Whether a long part of the source, EOS not counted, received hardly any attention: (B,) bool."""
    inner = source_lengths - 1
    open_places = (coverage < _COVERED) & (tf.range(tf.shape(coverage)[1]) < inner[:, None])
    needed = tf.maximum(
        tf.cast(tf.math.ceil(_UNCOVERED_SHARE * tf.cast(inner, tf.float32)), tf.int32), _UNCOVERED_LEAST
    )
    before = tf.cumsum(tf.cast(tf.pad(open_places, [[0, 0], [1, 0]]), tf.int32), axis=1)
    # A run that ends at j has `needed` places if the sum has grown by that since j - needed.
    ends = tf.range(tf.shape(before)[1])
    starts = ends - needed[:, None]
    grown = before - tf.gather(before, tf.maximum(starts, 0), batch_dims=1)
    return tf.reduce_any((starts >= 0) & (grown == needed[:, None]), axis=1)


def constrained(options: SearchOptions) -> SearchOptions:
    """The options of the second search: no bigram twice, and a penalty for what is not covered."""
    return dataclasses.replace(
        options,
        nbest=None,
        no_repeat_ngram=min(options.no_repeat_ngram or 2, 2),
        coverage_penalty=options.coverage_penalty or 0.05,
    )


def constrained_rows(rows: Mapping[str, tf.Tensor], usual: LengthRange) -> dict[str, tf.Tensor]:
    """Rows of the second search, whose outputs have usual lengths; `rows` are those of `search_ids`."""
    low, high = usual.limits(rows["lengths"])
    least = rows["prefix_lengths"] + 1 if "prefix_lengths" in rows else tf.ones_like(low)
    most = tf.minimum(rows["max_lengths"], tf.maximum(high, least))
    # `low` counts EOS, and so do maximum lengths; a minimum does not.
    return {**rows, "max_lengths": most, "min_lengths": tf.minimum(low, most) - 1}


class Checked(NamedTuple):
    """Hypotheses whose best ones are checked.

    found: the hypotheses.
    failed: (N,) int32, the checks that the best one of each row fails, as a sum of `CHECKS`.
    retried: (N,) bool, whether they are those of the second search.
    """

    found: Hypotheses
    failed: tf.Tensor
    retried: tf.Tensor


def unchecked(found: Hypotheses) -> Checked:
    """Hypotheses that are not checked."""
    none = tf.zeros_like(found.lengths[:, 0])
    return Checked(found, none, tf.cast(none, tf.bool))


class CheckedSearch:
    """Beam search with failure detection.

    Where the best output of a row fails a check, the row is searched again with constraints (`constrained`,
    `constrained_rows`), and the better of the two results is kept. Other rows are those of `search_ids`, at hardly any
    cost: a few operations choose the outputs to check (`may_fail`), and only these go through the decoder once more,
    for their coverage. The graphs of the checks and of the second search are traced once for all signatures.

    Args:
        model: a `Transformer`.
        usual: lengths of translations.
        shortlist: as in `search_ids`.
    """

    def __init__(self, model: Transformer, usual: LengthRange, shortlist: CandidateTable | None = None):
        self._model, self._usual, self._shortlist = model, usual, shortlist
        self._second_search = functools.cache(self._traced_search)
        self._checks = functools.cache(self._traced_checks)

    def __call__(self, rows: dict[str, tf.Tensor], options: SearchOptions) -> Checked:
        """The K best outputs of each row; the arguments are those of `search_ids`."""

        def of_batch(rows: dict[str, tf.Tensor]) -> tuple[Hypotheses, tf.Tensor]:
            memory = self._model.encode(rows["source"])
            found = search_batch(self._model, rows, options, None, self._shortlist, memory=memory)
            return found, self._failed(rows, found, memory)

        first, failed = search_in_batches(of_batch, rows, options.beam_size)
        again = functools.partial(self._search_again, rows, options, first, failed)
        unchanged = (*first[:5], failed, tf.zeros_like(failed, tf.bool))
        *columns, failed, retried = tf.cond(tf.reduce_any(failed > 0), again, lambda: unchanged)
        return Checked(Hypotheses(*columns), failed, retried)

    def _failed(self, rows: Mapping[str, tf.Tensor], found: Hypotheses, memory: tf.Tensor) -> tf.Tensor:
        """`failed_checks` (B,) int32 of the outputs that may fail, 0 for the others."""
        chosen, none = may_fail(found, rows, self._usual), tf.zeros_like(rows["lengths"])
        given = {name: rows[name] for name in ("source", "lengths", "prefix_lengths") if name in rows}
        given |= {"target": found.ids[:, 0], "target_lengths": found.lengths[:, 0], "finished": found.finished[:, 0]}

        def checked() -> tf.Tensor:
            places = tf.where(chosen)
            some = [tf.gather(tensor, places[:, 0]) for tensor in (memory, *given.values())]
            return tf.tensor_scatter_nd_update(none, places, self._checks(tuple(given))(*some))

        return tf.cond(tf.reduce_any(chosen), checked, lambda: none)

    def _traced_checks(self, names: tuple[str, ...]) -> Callable:
        """`failed_checks` as a TensorFlow function of the encoder's output and of tensors in the order of `names`."""

        def failed(memory: tf.Tensor, *tensors: tf.Tensor) -> tf.Tensor:
            rows = dict(zip(names, tensors))
            lengths = rows["target_lengths"]
            target = rows["target"][:, : tf.reduce_max(lengths)]
            coverage = coverage_of(self._model, memory, rows["source"], target, lengths)
            columns = target, lengths, lengths, lengths, rows["finished"], coverage
            return failed_checks(Hypotheses(*(column[:, None] for column in columns)), rows, self._usual)

        memory = tf.TensorSpec([None, None, self._model.config.model_dim], self._model.compute_dtype)
        return tf.function(failed, input_signature=[memory, *_specs(names)], autograph=False)

    def _search_again(
        self, rows: Mapping[str, tf.Tensor], options: SearchOptions, first: Hypotheses, failed: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """The columns of `Checked`, with the better results of a second search in place of the first ones."""
        places = tf.where(failed > 0)
        some = [tf.gather(tensor, places[:, 0]) for tensor in rows.values()]
        *second, still_failed = self._second_search(options, tuple(rows))(*some)
        better = still_failed < tf.gather(failed, places[:, 0])
        return _replaced((*first[:5], failed), (*second, still_failed), places, better, options.pad_id)

    def _traced_search(self, options: SearchOptions, names: tuple[str, ...]) -> Callable:
        """The second search as a TensorFlow function of the rows' tensors, in the order of their names."""
        # A coverage penalty of the user's is defined on the last layer.
        all_layers = not options.coverage_penalty
        constraints = dataclasses.replace(constrained(options), track_coverage=True)

        def of_batch(rows: dict[str, tf.Tensor]) -> tuple[Hypotheses, tf.Tensor]:
            found = search_batch(self._model, rows, constraints, None, self._shortlist, all_layers)
            return found, failed_checks(found, rows, self._usual)

        def search(*tensors: tf.Tensor) -> tuple[tf.Tensor, ...]:
            rows = constrained_rows(dict(zip(names, tensors)), self._usual)
            found, failed = search_in_batches(of_batch, rows, constraints.beam_size)
            return *found[:5], failed

        return tf.function(search, input_signature=_specs(names), autograph=False)


def _specs(names: Sequence[str]) -> list[tf.TensorSpec]:
    shapes = {name: [None, None] for name in ("source", "prefix", "target")}
    return [tf.TensorSpec(shapes.get(name, [None]), tf.bool if name == "finished" else tf.int32) for name in names]


def _replaced(
    old: Sequence[tf.Tensor], new: Sequence[tf.Tensor], places: tf.Tensor, better: tf.Tensor, pad_id: int
) -> tuple[tf.Tensor, ...]:
    """The old columns with the better rows of the new ones at their places, and which rows these are: (N,) bool."""
    width = tf.maximum(tf.shape(old[0])[2], tf.shape(new[0])[2])

    def widened(ids: tf.Tensor) -> tf.Tensor:
        return tf.pad(ids, [[0, 0], [0, 0], [0, width - tf.shape(ids)[2]]], constant_values=pad_id)

    places = tf.boolean_mask(places, better)
    pairs = zip((widened(old[0]), *old[1:]), (widened(new[0]), *new[1:]))
    columns = [tf.tensor_scatter_nd_update(one, places, tf.boolean_mask(other, better)) for one, other in pairs]
    none = tf.zeros_like(old[-1], tf.bool)
    return *columns, tf.tensor_scatter_nd_update(none, places, tf.ones_like(places[:, 0], tf.bool))
