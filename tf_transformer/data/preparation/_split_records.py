"""Writing of a split's records: pairs of ids into shards, with their counts."""

import pathlib

import numpy as np

from tf_transformer._files import sha256_of_file
from tf_transformer._progress import Progress
from tf_transformer.data._pair_ids import PairIds
from tf_transformer.data._prepared import lengths_name, record_origin
from tf_transformer.data._records import ShardWriter
from tf_transformer.data._shapes import LengthCounts
from tf_transformer.data.corpora import Pair
from tf_transformer.data.preparation._dataset_info import file_facts, length_facts, ratio_facts
from tf_transformer.data.preparation._encoding import Encoder, encode_chunks
from tf_transformer.data.preparation._spool import Spool

MAX_SHARDS = 128
"""All shards are open at the same time, and some systems allow no more than 256 open files."""


class SplitWriter:
    """Writer of the shards `train-00000.tfrecord`, `train-00001.tfrecord` … of a split, with their counts.

    Args:
        directory: to write into.
        split: its name.
        shards: how many there are; those without a pair are removed in the end.
        fingerprint: of the dataset.
    """

    def __init__(self, directory: pathlib.Path, split: str, shards: int, fingerprint: str):
        self._directory, self._split = directory, split
        paths = [directory / f"{split}-{number:05d}.tfrecord" for number in range(shards)]
        self._shards = [ShardWriter(path, record_origin(fingerprint, path.name)) for path in paths]
        self._counts = LengthCounts(np.zeros((0, 2), np.int64), np.zeros(0, np.int64))

    def write(self, pairs: PairIds, shard_counts: np.ndarray) -> None:
        """Write pairs that are sorted by shard, `shard_counts` of them to each shard."""
        for shard, own in zip(self._shards, pairs.split(shard_counts)):
            if len(own.lengths):
                shard.write(own)
        lengths = np.concatenate([self._counts.lengths, pairs.lengths])
        ones = np.ones(len(pairs.lengths), np.int64)
        self._counts = LengthCounts.of(lengths, np.concatenate([self._counts.pairs, ones]))

    def close(self) -> dict[str, object]:
        """Close all shards; return the facts of the split for `dataset.json`."""
        for shard in self._shards:
            shard.close()
            if not shard.pairs:
                shard.path.unlink()
        path = self._directory / lengths_name(self._split)
        np.save(path, np.column_stack(self._counts).astype(np.int64))
        tokens = self._counts.pairs @ self._counts.lengths
        return {
            "pairs": int(self._counts.pairs.sum()),
            "source_tokens": int(tokens[0]),
            "target_tokens": int(tokens[1]),
            "source_lengths": length_facts(self._histogram(0)),
            "target_lengths": length_facts(self._histogram(1)),
            "length_ratio": ratio_facts(self._counts.lengths, self._counts.pairs),
            "lengths_sha256": sha256_of_file(path),
            "shards": [
                {"file": s.path.name, "pairs": s.pairs, "records": s.records, **file_facts(s.path)}
                for s in self._shards
                if s.pairs
            ],
        }

    def _histogram(self, side: int) -> np.ndarray:
        return np.bincount(self._counts.lengths[:, side], self._counts.pairs).astype(np.int64)


class TrainingRecords:
    """The training split, written: the facts for `dataset.json`, and what was left out of it."""

    def __init__(self) -> None:
        self.facts: dict[str, object] = {}
        self.too_long = self.empty = 0
        self.held_out: list[Pair] = []
        self.held_out_parts: list[int] = []
        self.pairs_of_part: dict[int, int] = {}


def write_training_split(
    directory: pathlib.Path, spool: Spool, encoder: Encoder, workers: int, fingerprint: str
) -> TrainingRecords:
    """Encode a spool into shards in `directory`."""
    writer, result = SplitWriter(directory, "train", encoder.shards, fingerprint), TrainingRecords()
    with Progress("encoding", spool.pairs) as progress:
        for chunk, encoded in zip(spool.chunks, encode_chunks(encoder, spool.chunks, workers), strict=True):
            writer.write(encoded.ids, encoded.shard_counts)
            result.too_long += encoded.too_long
            result.empty += encoded.empty
            result.held_out += encoded.held_out
            result.held_out_parts += [chunk.part] * len(encoded.held_out)
            pairs = result.pairs_of_part.get(chunk.part, 0)
            result.pairs_of_part[chunk.part] = pairs + len(encoded.ids.lengths)
            progress.update(encoded.pairs)
    result.facts = writer.close() | {"id_type": encoder.dtype.str}
    return result
