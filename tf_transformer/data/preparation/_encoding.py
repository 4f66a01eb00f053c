"""Encoding spooled pairs into TFRecord shards of ids, in several processes.

Nothing here imports TensorFlow, so that a worker process starts in a fraction of a second and stays small.
"""

import collections
import dataclasses
import os
import pathlib
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process

import numpy as np

from tf_transformer._progress import Progress
from tf_transformer.data._records import ShardWriter, frame_pairs, id_type, lengths_path
from tf_transformer.data.corpora import Pair
from tf_transformer.data.preparation._dataset_info import file_facts, length_facts
from tf_transformer.data.preparation._spool import Chunk, Spool
from tf_transformer.text import Subwords

# Below this many chunks a second process costs more than it saves.
_MIN_PARALLEL_CHUNKS = 4


@dataclasses.dataclass(frozen=True)
class Encoded:
    """A chunk as ids: its records, their lengths [n, 2], the pairs held out, and how many were dropped.

    Attributes:
        pairs: of the chunk.
        too_long: with a side of too many tokens.
        empty: with a side of none, because all its characters were spaces of some kind.
    """

    records: bytes
    lengths: np.ndarray
    pairs: int
    too_long: int
    empty: int
    held_out: list[Pair]


@dataclasses.dataclass(frozen=True)
class Encoder:
    """Turns a chunk into ids.

    Args:
        source, target: the vocabularies.
        max_length: pairs with a longer side, in tokens with END, are dropped and counted.
        held_out: numbers of pairs that are not encoded but handed back as text.
    """

    source: Subwords
    target: Subwords
    max_length: int
    held_out: frozenset[int] = frozenset()

    @property
    def dtype(self) -> np.dtype:
        return id_type(max(self.source.vocab_size, self.target.vocab_size))

    def __call__(self, chunk: Chunk) -> Encoded:
        sources, targets = chunk.read()
        held = [i for i in range(chunk.pairs) if chunk.first + i in self.held_out]
        held_out = [(sources[i], targets[i]) for i in held]
        for i in reversed(held):
            del sources[i], targets[i]
        source_ids, target_ids = self.source.encode_batch(sources), self.target.encode_batch(targets)
        ends = self.source.adds_end, self.target.adds_end
        said = [p for p in zip(source_ids, target_ids) if len(p[0]) > ends[0] and len(p[1]) > ends[1]]
        pairs = [p for p in said if max(len(p[0]), len(p[1])) <= self.max_length]
        source_ids, target_ids = [p[0] for p in pairs], [p[1] for p in pairs]
        lengths = np.array([(len(s), len(t)) for s, t in pairs], np.int32).reshape(-1, 2)
        records = frame_pairs(source_ids, target_ids, self.dtype)
        return Encoded(records, lengths, chunk.pairs, len(said) - len(pairs), len(sources) - len(said), held_out)


def encode_chunks(encoder: Encoder, chunks: list[Chunk], workers: int) -> Iterator[Encoded]:
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


def _in_order(pool: ProcessPoolExecutor, chunks: Iterable[Chunk], ahead: int) -> Iterator[Encoded]:
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
    """Keeps the vocabularies for all chunks of this process; an interrupt is the parent's to handle."""
    global _worker_encoder
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker_encoder = encoder


def _end_with_parent() -> None:
    """Ends this process when its parent is gone: a parent that was killed tells its workers nothing."""
    parent_process().join()
    os._exit(1)


def _encode(chunk: Chunk) -> Encoded:
    return _worker_encoder(chunk)


class ShardedWriter:
    """Writes encoded chunks into `train-00000.tfrecord`, `train-00001.tfrecord` … and counts what it writes."""

    def __init__(self, directory: pathlib.Path, shard_pairs: int, max_length: int):
        self._directory, self._shard_pairs = directory, shard_pairs
        self._shard: ShardWriter | None = None
        self._histograms = np.zeros((2, max_length + 1), np.int64)
        self.shards: list[dict] = []
        self.too_long = self.empty = 0
        self.held_out: list[Pair] = []

    def write(self, encoded: Encoded) -> None:
        if self._shard is None:
            self._shard = ShardWriter(self._directory, f"train-{len(self.shards):05d}")
        self._shard.write(encoded.records, encoded.lengths)
        for side in (0, 1):
            self._histograms[side] += np.bincount(encoded.lengths[:, side], minlength=self._histograms.shape[1])
        self.too_long += encoded.too_long
        self.empty += encoded.empty
        self.held_out += encoded.held_out
        if self._shard.pairs >= self._shard_pairs:
            self.close()

    def close(self) -> None:
        """Ends the current shard, if there is one."""
        if self._shard is None:
            return
        self._shard.close()
        path, lengths = self._shard.path, lengths_path(self._shard.path)
        self.shards.append(
            {"file": path.name, "pairs": self._shard.pairs, **file_facts(path), "lengths": file_facts(lengths)}
        )
        self._shard = None

    def facts(self) -> dict[str, object]:
        """The counts, for `dataset.json`."""
        tokens = self._histograms @ np.arange(self._histograms.shape[1])
        return {
            "pairs": int(self._histograms[0].sum()),
            "source_tokens": int(tokens[0]),
            "target_tokens": int(tokens[1]),
            "source_lengths": length_facts(self._histograms[0]),
            "target_lengths": length_facts(self._histograms[1]),
            "shards": self.shards,
        }


def write_training_split(
    directory: pathlib.Path, spool: Spool, encoder: Encoder, workers: int, shard_pairs: int
) -> ShardedWriter:
    """Encodes a spool into shards in `directory`; what the writer then knows goes into `dataset.json`."""
    writer = ShardedWriter(directory, shard_pairs, encoder.max_length)
    with Progress("encoding", spool.pairs) as progress:
        for encoded in encode_chunks(encoder, spool.chunks, workers):
            writer.write(encoded)
            progress.update(encoded.pairs)
    writer.close()
    return writer
