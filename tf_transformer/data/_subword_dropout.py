"""Subword dropout: pieces split at random into the pieces they were merged from, in the graph.

It follows BPE-dropout (Provilkov et al., 2020, arXiv 1910.13267), which leaves out merges at random while it tokenizes.
Here merges are undone at random in text that is tokenized already: no text is needed, and what is drawn follows from a
seed.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from tf_transformer.data._records import Pairs
from tf_transformer.data._shapes import BatchShape
from tf_transformer.text import TokenizerPair, piece_splits

_LEVELS = 3
"""Levels of splitting: a piece becomes at most two, four, eight parts."""


@dataclasses.dataclass(frozen=True)
class SubwordDropout:
    """Splits pieces of source and target at random.

    Attributes:
        rate: probability that a piece is split into its two parts; a part is split with the same probability again.
        tables: the parts of each piece of source and target, as of `piece_splits`.
        longest: lengths of source and target that splitting must not exceed. A sentence that would keeps its pieces.
    """

    rate: float
    tables: tuple[np.ndarray, np.ndarray]
    longest: tuple[int, int]

    @classmethod
    def of(
        cls, rate: float, tokenizers: TokenizerPair, shapes: tuple[BatchShape, ...], max_length: int
    ) -> "SubwordDropout":
        """The dropout of a pair of tokenizers, for sentences that must fit into one of the shapes."""
        source = piece_splits(tokenizers.source.subwords)
        target = source if tokenizers.shared else piece_splits(tokenizers.target.subwords)
        longest = max(shape.source for shape in shapes), max(shape.target for shape in shapes)
        return cls(rate, (source, target), (min(longest[0], max_length), min(longest[1], max_length)))

    def apply(self, pairs: Pairs, seed: tf.Tensor) -> Pairs:
        """The pairs with pieces split; what is split follows from `seed`, [2] int64."""
        source, target = (pairs.source, pairs.source_splits), (pairs.target, pairs.target_splits)
        for level in range(_LEVELS):
            seeds = [seed + tf.constant([0, 2 * level + side + 2], tf.int64) for side in range(2)]
            source = self._split(*source, 0, seeds[0])
            target = self._split(*target, 1, seeds[1])
        return Pairs(*source, *target)

    def _split(self, ids: tf.Tensor, splits: tf.Tensor, side: int, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """One level of splitting over the sentences of one side: ids, and where each sentence begins."""
        parts = tf.gather(self.tables[side], tf.cast(ids, tf.int32))
        drawn = tf.random.stateless_uniform(tf.shape(ids), seed, alg="philox") < self.rate
        drawn = tf.logical_and(drawn, parts[:, 0] >= 0)
        drawn = tf.logical_and(drawn, self._in_sentences_with_room(drawn, splits, side))
        counts = tf.cast(drawn, tf.int64) + 1
        ends = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(counts)], 0)
        split = tf.repeat(tf.where(drawn, parts[:, 0], tf.cast(ids, tf.int32)), counts)
        seconds = tf.boolean_mask(ends[1:] - 1, drawn)
        split = tf.tensor_scatter_nd_update(split, seconds[:, None], tf.boolean_mask(parts[:, 1], drawn))
        return tf.cast(split, ids.dtype), tf.gather(ends, splits)

    def _in_sentences_with_room(self, drawn: tf.Tensor, splits: tf.Tensor, side: int) -> tf.Tensor:
        """Per piece, whether its sentence stays within the longest length with all its drawn pieces split."""
        more = tf.gather(tf.concat([tf.zeros([1], tf.int64), tf.cumsum(tf.cast(drawn, tf.int64))], 0), splits)
        lengths = splits[1:] - splits[:-1]
        return tf.repeat(lengths + more[1:] - more[:-1] <= self.longest[side], lengths)
