"""Encoding of spooled pairs into records of ids, in several processes.

Nothing here imports TensorFlow, so that a worker process starts in a fraction of a second and stays small.
"""

import collections
import dataclasses
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import numpy as np

from tf_transformer._processes import end_with_parent
from tf_transformer.data._pair_ids import PairIds, id_type
from tf_transformer.data.corpora import LanguagePair, Pair
from tf_transformer.data.preparation._spool import PairChunk
from tf_transformer.text import Languages, Subwords

# Below this many chunks a second process costs more than it saves.
_MIN_PARALLEL_CHUNKS = 4


@dataclasses.dataclass(frozen=True)
class Encoded:
    """A chunk as ids: its pairs sorted by shard, the pairs held out, and how many were dropped.

    Attributes:
        ids: of the pairs that are kept.
        shard_counts: pairs of each shard, [shards].
        pairs: of the chunk.
        too_long: with a side of too many tokens.
        empty: with a side of none, because all its characters were spaces of some kind.
    """

    ids: PairIds
    shard_counts: np.ndarray
    pairs: int
    too_long: int
    empty: int
    held_out: list[Pair]


@dataclasses.dataclass(frozen=True)
class Encoder:
    """Encoder of a chunk into ids.

    Args:
        source, target: the vocabularies.
        max_length: pairs with a longer side, in tokens with EOS, are dropped and counted.
        held_out: numbers of pairs that are not encoded but handed back as text.
        languages: of a multilingual vocabulary, whose tokens are put where the model reads them.
        part_languages: codes of source and target of each part of the corpus, if there are `languages`.
        shards: to which pairs are dealt at random, so that each shard is a fair sample of the corpus.
        seed: of that.
    """

    source: Subwords
    target: Subwords
    max_length: int
    held_out: frozenset[int] = frozenset()
    shards: int = 1
    seed: int = 0
    languages: Languages | None = None
    part_languages: tuple[LanguagePair, ...] = ()

    @property
    def dtype(self) -> np.dtype:
        return id_type(max(self.source.vocab_size, self.target.vocab_size))

    def __call__(self, chunk: PairChunk) -> Encoded:
        sources, targets = chunk.read()
        held = [i for i in range(chunk.pairs) if chunk.first + i in self.held_out]
        held_out = [(sources[i], targets[i]) for i in held]
        for i in reversed(held):
            del sources[i], targets[i]
        source_ids, target_ids = self.source.encode_batch(sources), self.target.encode_batch(targets)
        ends = self.source.add_eos, self.target.add_eos
        filled = [p for p in zip(source_ids, target_ids) if len(p[0]) > ends[0] and len(p[1]) > ends[1]]
        if self.languages is not None:
            filled = self.tagged(filled, *self.part_languages[chunk.part])
        pairs = [p for p in filled if max(len(p[0]), len(p[1])) <= self.max_length]
        too_long = len(filled) - len(pairs)
        random = np.random.default_rng([self.seed, chunk.first])
        if chunk.weight != 1.0:
            copies = np.floor(chunk.weight + random.random(len(pairs))).astype(int)
            pairs = [pair for pair, count in zip(pairs, copies) for _ in range(count)]
        shard_of = random.integers(self.shards, size=len(pairs))
        by_shard = [pairs[i] for i in np.argsort(shard_of, kind="stable")]
        ids = PairIds.of([p[0] for p in by_shard], [p[1] for p in by_shard], self.dtype)
        shard_counts = np.bincount(shard_of, minlength=self.shards)
        return Encoded(ids, shard_counts, chunk.pairs, too_long, len(sources) - len(filled), held_out)

    def tagged(self, pairs: list[tuple[list[int], list[int]]], source: str, target: str) -> list:
        """Pairs of ids with the tokens of their languages; without languages the pairs themselves."""
        if self.languages is None:
            return pairs
        sides = [p[0] for p in pairs], [p[1] for p in pairs]
        return list(zip(*self.languages.tagged(source, target, *sides)))


def encode_chunks(encoder: Encoder, chunks: Sequence[PairChunk], workers: int) -> Iterator[Encoded]:
    """The chunks as ids, in order, whatever the number of workers."""
    if workers < 2 or len(chunks) < _MIN_PARALLEL_CHUNKS:
        yield from map(encoder, chunks)
        return
    # Not forked: TensorFlow's threads may be running in this process.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(encoder,))
    try:
        yield from _in_order(pool, chunks, ahead=2 * workers)
    except BrokenProcessPool:
        raise ValueError(
            "a worker process died while encoding; is there enough memory? Try fewer with --workers. In a script of "
            "your own, call prepare() under `if __name__ == '__main__':`"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _in_order(pool: ProcessPoolExecutor, chunks: Iterable[PairChunk], ahead: int) -> Iterator[Encoded]:
    """Results in the order of the chunks, with a bounded number of them waiting in memory."""
    waiting: collections.deque[Future] = collections.deque()
    for chunk in chunks:
        waiting.append(pool.submit(_encode, chunk))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


_worker_encoder: Encoder | None = None


def _start_worker(encoder: Encoder) -> None:
    """Store the vocabularies for all chunks of this process; the parent handles interrupts."""
    global _worker_encoder
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    _worker_encoder = encoder


def _encode(chunk: PairChunk) -> Encoded:
    assert _worker_encoder is not None  # set by _start_worker
    return _worker_encoder(chunk)
