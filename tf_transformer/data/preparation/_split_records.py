"""Writing of a split's records: pairs of ids into shards, with their counts."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tf_transformer._files import sha256_of_file
from tf_transformer._progress import Progress
from tf_transformer.data._pair_ids import PairIds
from tf_transformer.data._prepared import lengths_name, record_origin, shard_name
from tf_transformer.data._records import ShardWriter
from tf_transformer.data._shapes import LengthCounts
from tf_transformer.data.corpora import Pair
from tf_transformer.data.preparation._dataset_info import file_facts, length_facts, ratio_facts
from tf_transformer.data.preparation._encoding import Encoder, encode_chunks
from tf_transformer.data.preparation._spool import PairChunk

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
        paths = [directory / shard_name(split, number) for number in range(shards)]
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
        return split_facts(
            self._directory, self._split, self._counts, (shard_facts(shard) for shard in self._shards if shard.pairs)
        )


def shard_facts(shard: ShardWriter) -> dict[str, object]:
    """The facts of a closed shard."""
    return {"file": shard.path.name, "pairs": shard.pairs, "records": shard.records, **file_facts(shard.path)}


def split_facts(
    directory: pathlib.Path, split: str, counts: LengthCounts, shards: Iterable[Mapping[str, object]]
) -> dict[str, object]:
    """The facts of a split, whose table of lengths is written to `directory`."""
    path = directory / lengths_name(split)
    np.save(path, np.column_stack(counts).astype(np.int64))
    tokens = counts.pairs @ counts.lengths
    histograms = [np.bincount(counts.lengths[:, side], counts.pairs).astype(np.int64) for side in range(2)]
    return {
        "pairs": int(counts.pairs.sum()),
        "source_tokens": int(tokens[0]),
        "target_tokens": int(tokens[1]),
        "source_lengths": length_facts(histograms[0]),
        "target_lengths": length_facts(histograms[1]),
        "length_ratio": ratio_facts(counts.lengths, counts.pairs),
        "lengths_sha256": sha256_of_file(path),
        "shards": list(shards),
    }


class TrainingRecords:
    """The training split, written: the facts for `dataset.json`, and what was left out of it."""

    def __init__(self) -> None:
        self.facts: dict[str, object] = {}
        self.too_long = self.empty = 0
        self.held_out: list[Pair] = []
        self.held_out_parts: list[int] = []
        self.pairs_of_part: dict[int, int] = {}

    def count(self, part: int, pairs: int, too_long: int, empty: int, held_out: list[Pair]) -> None:
        """Count the pairs of a chunk of a part, and what was left out; the chunks come in order."""
        self.pairs_of_part[part] = self.pairs_of_part.get(part, 0) + pairs
        self.too_long += too_long
        self.empty += empty
        self.held_out += held_out
        self.held_out_parts += [part] * len(held_out)


def write_training_split(
    directory: pathlib.Path, chunks: Sequence[PairChunk], encoder: Encoder, workers: int, fingerprint: str
) -> TrainingRecords:
    """Encode chunks into shards in `directory`."""
    writer, result = SplitWriter(directory, "train", encoder.shards, fingerprint), TrainingRecords()
    with Progress("encoding", sum(chunk.pairs for chunk in chunks)) as progress:
        for chunk, encoded in zip(chunks, encode_chunks(encoder, chunks, workers), strict=True):
            writer.write(encoded.ids, encoded.shard_counts)
            pairs = len(encoded.ids.lengths)
            result.count(chunk.part, pairs, encoded.too_long, encoded.empty, encoded.held_out)
            progress.update(encoded.pairs)
    result.facts = writer.close() | {"id_type": encoder.dtype.str}
    return result
