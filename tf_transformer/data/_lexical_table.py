"""Lexical table of prepared data: the likeliest translations of each source id, by IBM model 1.

IBM model 1 (Brown et al. 1993) explains each target token by one of the source tokens of its sentence. A few rounds of
expectation maximization over the pairs of source and target ids that occur together give p(target id | source id). All
of it is arithmetic on NumPy arrays, some thousands of sentence pairs at a time.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tf_transformer._progress import Progress
from tf_transformer.data._prepared import PreparedDataset

ROUNDS = 3
_CHUNK_LINKS = 4_000_000


@dataclasses.dataclass(frozen=True)
class LexicalTable:
    """Likeliest target ids per source id, and the most frequent target ids.

    Attributes:
        targets: (source vocabulary, W) int32, the likeliest first, -1 where there are no more.
        frequent: (F,) int32, the most frequent first.
        pairs: sentence pairs that were counted.
    """

    targets: np.ndarray
    frequent: np.ndarray
    pairs: int


def lexical_table(prepared: PreparedDataset, best: int, frequent: int, max_pairs: int = 500_000) -> LexicalTable:
    """Estimate the table from the training records.

    Args:
        best: target ids per source id, at most.
        frequent: number of the most frequent target ids.
        max_pairs: sentence pairs to count, from the first shards, which are random samples of the corpus.
    """
    for name, value in (("best", best), ("frequent", frequent), ("max_pairs", max_pairs)):
        if value < 1:
            raise ValueError(f"Expected {name} of at least 1. Received: {value}.")
    tokenizers = prepared.tokenizers
    counts = np.zeros(tokenizers.target.vocab_size, np.int64)
    model, pairs = IBMModel1(tokenizers.target.vocab_size), 0
    chunks = list(_chunks(prepared, max_pairs))
    with Progress("counting", ROUNDS * sum(len(chunk.lengths) for chunk in chunks)) as progress:
        for chunk in chunks:
            counts += np.bincount(chunk.target, minlength=len(counts))
            pairs += len(chunk.lengths)
            model.see(chunk)
        model.start()
        for _ in range(ROUNDS):
            for chunk in chunks:
                model.count(chunk)
                progress.update(len(chunk.lengths))
            model.update()
    order = np.argsort(-counts, kind="stable")[:frequent]
    return LexicalTable(
        model.best(tokenizers.source.vocab_size, best), order[counts[order] > 0].astype(np.int32), pairs
    )


@dataclasses.dataclass(frozen=True)
class _Chunk:
    """Sentence pairs: ids one after another without EOS, and lengths (pairs, 2)."""

    source: np.ndarray
    target: np.ndarray
    lengths: np.ndarray

    def links(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All pairs of a source and a target token of one sentence pair: source id, target id, number of the token."""
        sources, targets = self.lengths[:, 0], self.lengths[:, 1]
        sizes = sources * targets
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        widths = np.repeat(targets, sizes)
        row = np.repeat(np.cumsum(sources) - sources, sizes) + within // widths
        column = np.repeat(np.cumsum(targets) - targets, sizes) + within % widths
        return self.source[row], self.target[column], column


class IBMModel1:
    """Translation probabilities of the ids that occur together, as arrays over sorted keys.

    Call `see` with all chunks, `start`, then in each round `count` with all chunks and `update`.
    """

    def __init__(self, target_vocab_size: int):
        self._targets = target_vocab_size
        self._keys = np.zeros(0, np.int64)
        self._counts = np.zeros(0)
        self._probs = np.zeros(0)

    def see(self, chunk: _Chunk) -> None:
        """Add the links of a chunk to the keys, with the number of their occurrences."""
        keys, counts = np.unique(self._of(chunk)[0], return_counts=True)
        before = self._keys
        self._keys, places = np.unique(np.concatenate([before, keys]), return_inverse=True)
        self._counts = np.bincount(places, np.concatenate([self._counts, counts])).astype(np.float64)

    def start(self) -> None:
        """Start from the relative frequencies of occurring together."""
        self.update()

    def count(self, chunk: _Chunk) -> None:
        """Share each target token among the source tokens of its sentence, by the probabilities so far."""
        keys, tokens = self._of(chunk)
        places = np.searchsorted(self._keys, keys)
        probs = self._probs[places]
        probs /= np.bincount(tokens, probs)[tokens]
        self._counts += np.bincount(places, probs, minlength=len(self._keys))

    def update(self) -> None:
        """Normalize the counts per source id, and begin to count anew."""
        sources = self._keys // self._targets
        totals = np.bincount(sources, self._counts)
        self._probs = self._counts / np.maximum(totals[sources], 1e-30)
        self._counts = np.zeros(len(self._keys))

    def best(self, source_vocab_size: int, count: int) -> np.ndarray:
        """The `count` likeliest target ids of each source id, (source vocabulary, count) int32, filled up with -1."""
        sources = self._keys // self._targets
        order = np.lexsort((self._keys, -self._probs, sources))
        ranks = np.arange(len(order)) - np.searchsorted(sources, sources)  # the keys are sorted by source id
        kept = (ranks < count) & (self._probs[order] > 0)
        table = np.full((source_vocab_size, count), -1, np.int32)
        table[sources[order][kept], ranks[kept]] = (self._keys[order] % self._targets)[kept]
        return table

    def _of(self, chunk: _Chunk) -> tuple[np.ndarray, np.ndarray]:
        source, target, tokens = chunk.links()
        return source.astype(np.int64) * self._targets + target, tokens


def _chunks(prepared: PreparedDataset, max_pairs: int) -> Iterator[_Chunk]:
    """The training pairs without EOS, in chunks of bounded numbers of links."""
    reader, left = prepared.reader("train"), max_pairs
    ends = prepared.tokenizers.source.add_eos, prepared.tokenizers.target.add_eos
    for shard in range(len(reader.pairs)):
        if left <= 0:
            return
        pairs = reader.read(tf.constant([shard], tf.int64))
        lengths = np.stack([np.diff(pairs.source_splits), np.diff(pairs.target_splits)], axis=1)[:left]
        left -= len(lengths)
        source, target = (
            _without_last(np.asarray(ids), lengths[:, side])
            if ends[side]
            else np.asarray(ids)[: lengths[:, side].sum()]
            for side, ids in enumerate((pairs.source, pairs.target))
        )
        lengths = lengths - np.array(ends, np.int64)
        yield from _divided(_Chunk(source.astype(np.int64), target.astype(np.int64), lengths))


def _without_last(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The ids of some sentences without the last of each."""
    total = int(lengths.sum())
    kept = np.ones(total, bool)
    kept[np.cumsum(lengths) - 1] = False
    return ids[:total][kept]


def _divided(chunk: _Chunk) -> Iterator[_Chunk]:
    links = np.cumsum(chunk.lengths.prod(axis=1))
    parts = np.searchsorted(links, np.arange(_CHUNK_LINKS, int(links[-1]) + 1, _CHUNK_LINKS))
    ends = np.cumsum(chunk.lengths, axis=0)
    first = 0
    for last in [*np.unique(parts).tolist(), len(links)]:
        if last > first:
            begin = ends[first - 1] if first else np.zeros(2, np.int64)
            end = ends[last - 1]
            lengths = chunk.lengths[first:last]
            yield _Chunk(chunk.source[begin[0] : end[0]], chunk.target[begin[1] : end[1]], lengths)
            first = last
