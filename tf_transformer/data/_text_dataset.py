"""Training batches of text: a dataset of sentence pairs through the in-graph tokenizer into the same input pipeline."""

import numpy as np
import tensorflow as tf

from tf_transformer.data import _input_pipeline as pipeline
from tf_transformer.data._datasets import BatchOptions, planner_for
from tf_transformer.data._gathering import Replicas, SpecialIds
from tf_transformer.data._records import Pairs
from tf_transformer.data._shapes import LengthCounts
from tf_transformer.text import TokenizerPair

_MANY_PARTS = 2**31


def text_dataset(
    pairs: tf.data.Dataset,
    tokenizers: TokenizerPair,
    options: BatchOptions | None = None,
    seed: int = 1,
    *,
    epochs: int | None = None,
    sample_pairs: int = 50_000,
    replicas: Replicas | None = None,
) -> tf.data.Dataset:
    """Training batches of a dataset of text, without a prepared directory.

    The text is tokenized in the graph, in parts of 262,144 pairs, each of which is shuffled as a whole. Only empty and
    too long pairs are dropped, and a run cannot resume within an epoch: prepare a corpus that is trained on for long.

    Args:
        pairs: of (source, target), scalar strings; finite. Shuffle its files to mix it beyond a part.
        tokenizers: of source and target.
        options: how batches are made.
        seed: of the shuffling, besides the epoch.
        epochs: how often `pairs` is read; None for no end.
        sample_pairs: the static shapes are fitted to the lengths of so many pairs at the beginning.
        replicas: that the dataset feeds.

    Returns:
        A dataset as of `training_dataset`.

    Example:
        pairs = tfds.load("wmt14_translate/de-en", split="train").map(lambda pair: (pair["en"], pair["de"]))
        dataset = text_dataset(pairs, tokenizers, BatchOptions(batch_tokens=25_000))
    """
    options = options or BatchOptions()
    source, target = tokenizers.source, tokenizers.target
    special = SpecialIds(source.pad_id, target.pad_id, target.bos_id)
    planner = planner_for(_sampled_lengths(pairs.take(sample_pairs), tokenizers, options), options)

    def parts(epoch: tf.Tensor) -> tf.data.Dataset:
        texts = pairs.batch(pipeline.PART_PAIRS).enumerate()
        return texts.map(lambda number, text: pipeline.Part(epoch, number, _tokenize(text[0], text[1], tokenizers)))

    dataset = tf.data.Dataset.range(np.iinfo(np.int64).max if epochs is None else epochs).flat_map(parts)
    return pipeline.batch_parts(
        dataset, planner, special, _MANY_PARTS, seed, pipeline.Position(), replicas or Replicas()
    )


def _tokenize(source: tf.Tensor, target: tf.Tensor, tokenizers: TokenizerPair) -> Pairs:
    """The ids of pairs of texts, each [n], without pairs of which a side is empty."""
    filled = tf.logical_and(tf.strings.strip(source) != "", tf.strings.strip(target) != "")
    sides = tokenizers.source, tokenizers.target
    ids = [side.tokenize(tf.boolean_mask(text, filled)) for side, text in zip(sides, (source, target))]
    splits = [tf.cast(side.row_splits, tf.int64) for side in ids]
    return Pairs(ids[0].flat_values, splits[0], ids[1].flat_values, splits[1])


def _sampled_lengths(pairs: tf.data.Dataset, tokenizers: TokenizerPair, options: BatchOptions) -> LengthCounts:
    """The lengths of some pairs, and one of the longest that may come."""
    batches = [np.full((1, 2), options.max_length, np.int64)]
    lengths = pairs.batch(8192).map(lambda source, target: tf.stack(_tokenize(source, target, tokenizers).lengths(), 1))
    batches += list(lengths.as_numpy_iterator())
    if len(batches) == 1:
        raise ValueError("Expected a dataset of sentence pairs. Received: one without elements.")
    return LengthCounts.of(np.concatenate(batches)).up_to(options.max_length)
