"""Subword dropout: the text stays, the draw follows from the seed, and every pair appears once per epoch."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from toy_records import ToyPrepared, pairs_in

from tf_transformer.data import BatchOptions, BatchShape, Position, Replicas, training_dataset
from tf_transformer.data import _input_pipeline as input_pipeline
from tf_transformer.data._records import Pairs
from tf_transformer.data._subword_dropout import _LEVELS, SubwordDropout
from tf_transformer.text import EOS_ID, TokenizerPair, train_tokenizer

pytestmark = pytest.mark.long

WORDS = [
    "the",
    "small",
    "smaller",
    "smallest",
    "elephant",
    "sleeps",
    "in",
    "a",
    "green",
    "greenhouse",
    "of",
    "gardener",
    "gardening",
]
TEXTS = [
    (" ".join(WORDS[(n + i * (n % 5 + 1)) % len(WORDS)] for i in range(2 + n % 7)), f"{WORDS[n % 13]} {n}")
    for n in range(150)
]
SEED = (7, 11)


@pytest.fixture(scope="module")
def tokenizers():
    return TokenizerPair.of(train_tokenizer([side for pair in TEXTS * 3 for side in pair], 240, exact=False))


@pytest.fixture(scope="module")
def prepared(tokenizers, tmp_path_factory):
    pairs = [tuple(tokenizers.source.encode(side) for side in pair) for pair in TEXTS]
    prepared = ToyPrepared(tmp_path_factory.mktemp("records"), pairs, vocab_size=tokenizers.source.vocab_size)
    prepared.tokenizers = tokenizers
    return prepared


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Three parts per epoch."""
    monkeypatch.setattr(input_pipeline.parts_per_epoch, "__defaults__", (50,))


def dropout_of(tokenizers, rate, longest=64):
    return SubwordDropout.of(rate, tokenizers, (BatchShape(longest, longest, 4),), 128)


def pairs_of(tokenizers, dtype=tf.uint16):
    columns = []
    for side in range(2):
        rows = tf.ragged.constant([tokenizers.source.encode(pair[side]) for pair in TEXTS], tf.int32)
        columns += [tf.cast(rows.values, dtype), tf.cast(rows.row_splits, tf.int64)]
    return Pairs(*columns)


def rows(ids, splits):
    return [np.asarray(ids)[start:end].tolist() for start, end in itertools.pairwise(np.asarray(splits).tolist())]


def reference(sentences, table, rate, longest, seed, side):
    """The same splitting in plain Python, over the same draws."""
    for level in range(_LEVELS):
        count = sum(map(len, sentences))
        key = [seed[0], seed[1] + 2 * level + side + 2]
        draws = iter((tf.random.stateless_uniform([count], key, alg="philox") < rate).numpy().tolist())
        result = []
        for sentence in sentences:
            split = [table[i].tolist() if next(draws) and table[i][0] >= 0 else [i] for i in sentence]
            flat = [i for parts in split for i in parts]
            result.append(flat if len(flat) <= longest else sentence)
        sentences = result
    return sentences


@pytest.mark.parametrize("dtype", [tf.uint16, tf.int32])
@pytest.mark.parametrize(("rate", "longest"), [(0.1, 64), (0.5, 16), (1.0, 64)])
def test_it_is_the_reference_s(tokenizers, rate, longest, dtype):
    dropout, pairs = dropout_of(tokenizers, rate, longest), pairs_of(tokenizers, dtype)
    found = dropout.apply(pairs, tf.constant(SEED, tf.int64))
    assert found.source.dtype == found.target.dtype == dtype
    for side, (ids, splits) in enumerate([(0, 1), (2, 3)]):
        expected = reference(rows(pairs[ids], pairs[splits]), dropout.tables[side], rate, longest, SEED, side)
        assert rows(found[ids], found[splits]) == expected


def test_the_text_stays_and_the_length_limit_holds(tokenizers):
    found = dropout_of(tokenizers, 0.4, longest=12).apply(pairs_of(tokenizers), tf.constant(SEED, tf.int64))
    before = pairs_of(tokenizers)
    more = 0
    for side, column in ((0, found[:2]), (1, found[2:])):
        old = rows(*before[2 * side : 2 * side + 2])
        for ids, unsplit, text in zip(rows(*column), old, TEXTS, strict=True):
            assert tokenizers.source.decode(ids) == text[side] and ids[-1] == EOS_ID
            assert len(ids) <= max(12, len(unsplit))
            more += len(ids) - len(unsplit)
    assert more > 50


def decoded(batches, tokenizers):
    return [
        tuple(tokenizers.source.decode(side) for side in (s, labels)) for b in batches for s, _, labels in pairs_in(b)
    ]


@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_every_pair_appears_once_per_epoch_and_differs_between_epochs(prepared, tokenizers, batching):
    options = BatchOptions(batch_tokens=211, batching=batching)
    epochs = []
    for epoch in range(2):
        dataset = training_dataset(
            prepared, options, seed=3, position=Position(epoch), epochs=epoch + 1, subword_dropout=0.2
        )
        batches = list(dataset.as_numpy_iterator())
        assert sorted(decoded(batches, tokenizers)) == sorted(TEXTS)
        epochs.append(sorted(s.tolist() for b in batches for s, _, _ in pairs_in(b)))
    unsplit = sorted(source for source, _ in prepared.pairs["train"])
    assert epochs[0] != epochs[1] and unsplit not in epochs


def test_a_run_resumes_with_the_same_pieces_and_another_seed_has_others(prepared):
    options = BatchOptions(batch_tokens=211)

    def batches(seed=3, position=None):
        return list(
            training_dataset(
                prepared, options, seed, position=position, epochs=2, subword_dropout=0.2
            ).as_numpy_iterator()
        )

    whole = batches()
    for stop in (1, len(whole) // 2):
        resumed = batches(position=Position(*whole[stop - 1]["position"].tolist()))
        assert len(resumed) == len(whole) - stop
        for one, other in zip(resumed, whole[stop:], strict=True):
            for name in one:
                np.testing.assert_array_equal(one[name], other[name])
    sources = [sorted(s.tolist() for b in run for s, _, _ in pairs_in(b)) for run in (whole, batches(seed=4))]
    assert sources[0] != sources[1]


def test_replicas_share_the_same_global_batches(prepared):
    options = BatchOptions(batch_tokens=211)
    whole = list(training_dataset(prepared, options, epochs=1, subword_dropout=0.2).as_numpy_iterator())
    shared = training_dataset(prepared, options, epochs=1, subword_dropout=0.2, replicas=Replicas(2, 0, 2))
    shared = list(shared.as_numpy_iterator())
    assert len(shared) == 2 * len(whole)
    for number, batch in enumerate(whole):
        own = [ids.tolist() for ids, _, _ in pairs_in(batch)]
        parts = [ids.tolist() for half in shared[2 * number : 2 * number + 2] for ids, _, _ in pairs_in(half)]
        assert sorted(own) == sorted(parts)
