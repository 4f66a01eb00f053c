"""The input pipeline of version 0.1: NumPy batches of buckets, made by a thread; here to be compared with.

It had the records' lengths in memory, and read each pair at random from a memory map whose checksum it verified. This
copy has the ids in memory and verifies nothing, which makes it faster than it was.
"""

import queue
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.data import BatchShape, PreparedDataset


class Examples:
    """All training pairs of a prepared directory in memory."""

    def __init__(self, prepared: PreparedDataset):
        train = prepared.info["splits"]["train"]
        files = [str(prepared.path / shard["file"]) for shard in train["shards"]]
        columns: dict[str, list[bytes]] = {"source": [], "target": [], "lengths": []}
        for record in tf.data.TFRecordDataset(files).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            for name, column in columns.items():
                column.append(features[name].bytes_list.value[0])
        dtype = np.dtype(train["id_type"])
        self.ids = [np.frombuffer(b"".join(columns[name]), dtype) for name in ("source", "target")]
        self.lengths = np.frombuffer(b"".join(columns["lengths"]), "<i4").reshape(-1, 2)
        self.starts = np.cumsum(self.lengths, axis=0) - self.lengths

    def __getitem__(self, index: int) -> list[np.ndarray]:
        starts, lengths = self.starts[index], self.lengths[index]
        return [ids[start : start + length] for ids, start, length in zip(self.ids, starts, lengths)]


def batches(prepared: PreparedDataset, shapes: Sequence[BatchShape], max_length: int, ahead: int = 8) -> Iterator[dict]:
    """Endless batches, made by a thread up to `ahead` in advance."""
    ready: queue.Queue = queue.Queue(ahead)

    def produce() -> None:
        for batch in _batches(Examples(prepared), sorted(shapes), max_length):
            ready.put(batch)

    threading.Thread(target=produce, daemon=True).start()
    while True:
        yield ready.get()


def _batches(examples: Examples, shapes: list[BatchShape], max_length: int) -> Iterator[dict]:
    generator = np.random.default_rng(1)
    while True:
        for shape, numbers in _plan(examples.lengths, shapes, max_length, generator):
            yield _assemble(examples, shape, numbers)


def _plan(lengths, shapes, max_length, generator) -> list[tuple[BatchShape, np.ndarray]]:
    table = np.full((max_length + 1, max_length + 1), -1)
    for index in sorted(range(len(shapes)), key=lambda i: -(shapes[i].source + shapes[i].target)):
        table[: shapes[index].source + 1, : shapes[index].target + 1] = index
    kept = np.flatnonzero((lengths <= max_length).all(1))
    shape_of = table[lengths[kept, 0], lengths[kept, 1]]
    order = generator.permutation(len(kept))
    order = order[np.argsort(shape_of[order], kind="stable")]
    waiting = np.split(kept[order], np.cumsum(np.bincount(shape_of, minlength=len(shapes)))[:-1])
    plan = [
        (shape, own[first : first + shape.rows])
        for shape, own in zip(shapes, waiting)
        for first in range(0, len(own), shape.rows)
    ]
    return [plan[i] for i in generator.permutation(len(plan))]


def _assemble(examples: Examples, shape: BatchShape, numbers: np.ndarray) -> dict[str, np.ndarray]:
    batch = {"source": np.zeros((shape.rows, shape.source), np.int32)}
    batch |= {name: np.zeros((shape.rows, shape.target), np.int32) for name in ("target", "labels")}
    for row, number in enumerate(numbers.tolist()):
        source, target = examples[number]
        batch["source"][row, : len(source)] = source
        batch["target"][row, 0] = 2
        batch["target"][row, 1 : len(target)] = target[:-1]
        batch["labels"][row, : len(target)] = target
    return batch
