"""Writing of the training split: encoded chunks into shards, with their counts."""

import pathlib

import numpy as np

from tf_transformer._progress import Progress
from tf_transformer.data._records import ShardWriter, lengths_path
from tf_transformer.data.corpora import Pair
from tf_transformer.data.preparation._dataset_info import file_facts, length_facts
from tf_transformer.data.preparation._encoding import Encoded, Encoder, encode_chunks
from tf_transformer.data.preparation._spool import Spool


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
