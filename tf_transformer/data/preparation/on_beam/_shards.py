"""Shards of the training split, encoded and written by Beam workers."""

import dataclasses
import pathlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tf_transformer._beam import join, upload
from tf_transformer.data._pair_ids import PairIds
from tf_transformer.data.preparation._encoding import Encoder
from tf_transformer.data.preparation.on_beam._blocks import BlockChunk

COUNTS = "counts"
"""Name of the second output of `EncodeChunks`."""


@dataclasses.dataclass(frozen=True)
class EncodeChunks:
    """Encode chunks: to (shard, (number of the first pair, ids)), and to what was left out of each chunk."""

    encoder: Encoder

    def __call__(self, chunks: Sequence[BlockChunk]) -> Iterator[Any]:
        from apache_beam.pvalue import TaggedOutput

        for chunk in chunks:
            encoded = self.encoder(chunk)
            for shard, ids in enumerate(encoded.ids.split(encoded.shard_counts)):
                if len(ids.lengths):
                    yield shard, (chunk.first, ids)
            facts = len(encoded.ids.lengths), encoded.too_long, encoded.empty, encoded.held_out
            yield TaggedOutput(COUNTS, (chunk.first, chunk.part, *facts))


@dataclasses.dataclass(frozen=True)
class WriteShard:
    """Write one shard: from all its ids to its number, its facts and the lengths of its pairs.

    Attributes:
        destination: directory of the shards, on a file system that Beam knows.
        fingerprint: of the dataset.
    """

    destination: str
    fingerprint: str

    def __call__(self, group: tuple[int, Iterable[tuple[int, PairIds]]]) -> tuple[int, dict, Any]:
        # Here, not above: TensorFlow is not needed by the workers that clean and encode.
        from tf_transformer.data._prepared import record_origin, shard_name
        from tf_transformer.data._records import ShardWriter
        from tf_transformer.data._shapes import LengthCounts
        from tf_transformer.data.preparation._split_records import shard_facts

        shard, pieces = group[0], sorted(group[1], key=lambda piece: piece[0])
        name = shard_name("train", shard)
        with tempfile.TemporaryDirectory() as directory:
            writer = ShardWriter(pathlib.Path(directory, name), record_origin(self.fingerprint, name))
            for _, ids in pieces:
                writer.write(ids)
            writer.close()
            upload(writer.path, join(self.destination, name))
            counts = LengthCounts.of(np.concatenate([ids.lengths for _, ids in pieces]))
            return shard, shard_facts(writer), tuple(counts)
