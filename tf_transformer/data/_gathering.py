"""Gathering of batches: the rows of a plan as dense tensors, in the graph.

`source` (R, S); `target` (R, T), the decoder's input, each sentence beginning with BOS; `labels` (R, T), each ending in
EOS, where padding carries no loss. Packed batches also have `source_segments` and `target_segments` (from 1; 0 is
padding), `source_positions` and `target_positions` (from 0 in each segment). All are int32.
"""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.data._records import Pairs


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """Ids of padding and BOS."""

    source_pad: int = 0
    target_pad: int = 0
    bos: int = 2


@dataclasses.dataclass(frozen=True)
class Replicas:
    """The replicas that a dataset feeds, among all that share a global batch.

    Attributes:
        total: over all workers.
        first, count: those of this dataset.
        accumulation_steps: micro-batches of each replica; its rows are a multiple of it.
    """

    total: int = 1
    first: int = 0
    count: int = 1
    accumulation_steps: int = 1

    @classmethod
    def of(cls, context: tf.distribute.InputContext, accumulation_steps: int = 1) -> "Replicas":
        """The replicas of an input pipeline of `strategy.distribute_datasets_from_function`."""
        count = context.num_replicas_in_sync // context.num_input_pipelines
        return cls(context.num_replicas_in_sync, context.input_pipeline_id * count, count, accumulation_steps)

    def rows(self, rows: Any) -> Any:
        """The rows of each replica, of a global batch of `rows` (an int or an int tensor)."""
        multiple = self.total * self.accumulation_steps
        return (rows + multiple - 1) // multiple * self.accumulation_steps


class Plan(NamedTuple):
    """The batches of a part: each is some consecutive rows, each row some consecutive pairs of `pairs`.

    Attributes:
        pairs: numbers of pairs in the order of their places, [n] int64.
        row_splits: row i is `pairs[row_splits[i]:row_splits[i + 1]]`, [rows + 1] int64.
        first_rows, num_rows: of each batch, [batches] int64.
        shapes: (source, target, rows) of each batch, [batches, 3] int64.
    """

    pairs: tf.Tensor
    row_splits: tf.Tensor
    first_rows: tf.Tensor
    num_rows: tf.Tensor
    shapes: tf.Tensor


def gather_rows(
    pairs: Pairs, plan: Plan, batch: tf.Tensor, share: tf.Tensor, replicas: Replicas, special: SpecialIds, packed: bool
) -> dict[str, tf.Tensor]:
    """One replica's rows of a batch.

    Args:
        pairs, plan: of the part.
        batch: number of the batch in the plan.
        share: number of the replica. All have equally many consecutive rows; empty rows at the end fill them up.
        replicas: that share the batch.
        special: ids of padding and BOS.
        packed: whether rows hold several pairs.
    """
    source_length, target_length, rows = tf.unstack(plan.shapes[batch])
    rows = replicas.rows(rows)
    end = plan.first_rows[batch] + plan.num_rows[batch]
    first = tf.minimum(plan.first_rows[batch] + share * rows, end)
    splits = plan.row_splits[first : tf.minimum(first + rows, end) + 1]
    chosen = plan.pairs[splits[0] : splits[-1]]
    splits -= splits[0]
    source = _Side.gather(pairs.source, pairs.source_splits, chosen, splits, rows, source_length)
    target = _Side.gather(pairs.target, pairs.target_splits, chosen, splits, rows, target_length)
    labels = target.dense(target.ids, special.target_pad)
    result = {"source": source.dense(source.ids, special.source_pad), "labels": labels}
    before = tf.pad(labels[:, :-1], [[0, 0], [1, 0]], constant_values=special.bos)
    if packed:
        for name, side in (("source", source), ("target", target)):
            owners = side.owners()
            result[f"{name}_segments"] = side.dense(side.segments(owners, splits), 0)
            result[f"{name}_positions"] = side.dense(side.positions(owners), 0)
        before = tf.where(result["target_positions"] == 0, special.bos, before)
    return result | {"target": tf.where(labels == special.target_pad, special.target_pad, before)}


class _Side(NamedTuple):
    """The tokens of some rows on one side.

    Attributes:
        ids: of all sentences, one after another, [tokens] int32.
        sentence_splits: sentence i is `ids[sentence_splits[i]:sentence_splits[i + 1]]`.
        row_splits: row i is `ids[row_splits[i]:row_splits[i + 1]]`.
        shape: of the dense array.
    """

    ids: tf.Tensor
    sentence_splits: tf.Tensor
    row_splits: tf.Tensor
    shape: tf.Tensor

    @classmethod
    def gather(
        cls,
        values: tf.Tensor,
        value_splits: tf.Tensor,
        chosen: tf.Tensor,
        pair_splits: tf.Tensor,
        rows: tf.Tensor,
        length: tf.Tensor,
    ) -> "_Side":
        sentences = tf.gather(tf.RaggedTensor.from_row_splits(values, value_splits, validate=False), chosen)
        row_splits = tf.gather(sentences.row_splits, pair_splits)
        return cls(tf.cast(sentences.flat_values, tf.int32), sentences.row_splits, row_splits, tf.stack([rows, length]))

    def dense(self, values: tf.Tensor, padding: int) -> tf.Tensor:
        """Values of the tokens in their places: [tokens] to (R, S)."""
        ragged = tf.RaggedTensor.from_row_splits(values, self.row_splits, validate=False)
        return tf.ensure_shape(ragged.to_tensor(padding, shape=self.shape), [None, None])

    def owners(self) -> tf.Tensor:
        """The sentence that each token is of, [tokens] int64."""
        tokens = tf.range(tf.size(self.ids, tf.int64))
        return tf.searchsorted(self.sentence_splits[1:], tokens, side="right", out_type=tf.int64)

    def positions(self, owners: tf.Tensor) -> tf.Tensor:
        places = tf.range(tf.size(self.ids, tf.int64)) - tf.gather(self.sentence_splits, owners)
        return tf.cast(places, tf.int32)

    def segments(self, owners: tf.Tensor, pair_splits: tf.Tensor) -> tf.Tensor:
        """The number of each token's sentence in its row, from 1."""
        sentences = tf.range(tf.size(self.sentence_splits, tf.int64) - 1)
        rows = tf.searchsorted(pair_splits[1:], sentences, side="right", out_type=tf.int64)
        numbers = sentences - tf.gather(pair_splits, rows) + 1
        return tf.cast(tf.gather(numbers, owners), tf.int32)
