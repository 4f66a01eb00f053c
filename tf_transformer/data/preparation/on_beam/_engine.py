"""Engine of `prepare` on Apache Beam: blocks are cleaned, duplicates found, chunks encoded and shards written."""

import collections
import dataclasses
import json
import logging
import os
import pathlib
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_transformer._beam import BeamJobs, file_exists, is_local, join, read_bytes, remove_file, upload
from tf_transformer.data._prepared import INFO, PreparedDataset, PreparedError
from tf_transformer.data._shapes import LengthCounts
from tf_transformer.data.corpora import BLOCK_LINES, Corpus, blocks_of
from tf_transformer.data.preparation._cleaning import Cleaner, CleaningReport
from tf_transformer.data.preparation._encoding import Encoder
from tf_transformer.data.preparation._engine import VOCABULARY_BYTES, CleanPairs, parts_of
from tf_transformer.data.preparation._prepare import PrepareOptions, inputs_of, prepare
from tf_transformer.data.preparation._split_records import TrainingRecords, split_facts
from tf_transformer.data.preparation._spool import CHUNK_PAIRS
from tf_transformer.data.preparation.on_beam._blocks import (
    HASHES,
    Block,
    BlockSample,
    CleanBlocks,
    chunks_of,
    drop_duplicates,
    find_duplicates,
)
from tf_transformer.data.preparation.on_beam._shards import COUNTS, EncodeChunks, WriteShard
from tf_transformer.text import Subsample, TokenizerPair, limit_bytes

if TYPE_CHECKING:
    import apache_beam as beam

logger = logging.getLogger(__name__)

# Hashes that one worker compares at a time, about; all of a bucket are in its memory.
_BUCKET_PAIRS = 1 << 20
_MAX_BUCKETS = 4096
_UNIT_CHUNKS = 4


def prepare_on_beam(
    corpus: Corpus,
    output: str | os.PathLike,
    jobs: BeamJobs,
    options: PrepareOptions | None = None,
    *,
    tokenizers: TokenizerPair | None = None,
    overwrite: bool = False,
    command: str = "",
) -> PreparedDataset:
    """Write a prepared directory on any file system that Beam knows; its contents are those of `prepare`.

    Args:
        corpus, options, tokenizers, overwrite, command: as in `prepare`.
        output: the directory. On another file system than this machine's its files appear one by one, `dataset.json`
            at last.
        jobs: runs the pipelines.
    """
    output = os.fspath(output)
    if is_local(output):
        engine = BeamEngine(jobs)
        return prepare(
            corpus, output, options, tokenizers=tokenizers, overwrite=overwrite, command=command, engine=engine
        )
    options = options or PrepareOptions()
    done = _is_done_remotely(output, json.loads(json.dumps(inputs_of(corpus, options, tokenizers))), overwrite)
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary, "prepared")
        if done:
            directory.mkdir()
            (directory / INFO).write_bytes(read_bytes(join(output, INFO)))
            return PreparedDataset(directory)
        engine = BeamEngine(jobs, destination=output)
        prepared = prepare(corpus, directory, options, tokenizers=tokenizers, command=command, engine=engine)
        remove_file(join(output, INFO))
        for path in sorted(directory.iterdir(), key=lambda path: path.name == INFO):
            upload(path, join(output, path.name))
        return prepared


def _is_done_remotely(output: str, inputs: dict, overwrite: bool) -> bool:
    if overwrite or not file_exists(join(output, INFO)):
        return False
    if json.loads(read_bytes(join(output, INFO))).get("inputs") == inputs:
        logger.info("%s is prepared from the same inputs already: nothing to do", output)
        return True
    raise PreparedError(
        f"Expected a new directory or one prepared from the same inputs. Received: {output}, prepared from others. "
        "Give --overwrite to replace it, or another --output."
    )


@dataclasses.dataclass(frozen=True)
class BeamEngine:
    """Engine of `prepare` that cleans and encodes on Beam workers.

    Attributes:
        jobs: runs the pipelines.
        destination: directory of the training shards; None for the directory that is prepared.
        block_pairs: pairs that are cleaned at a time.
        chunk_pairs: pairs that are encoded at a time; other than the default gives other shards than on one machine.
    """

    jobs: BeamJobs
    destination: str | None = None
    block_pairs: int = BLOCK_LINES
    chunk_pairs: int = CHUNK_PAIRS

    def clean(
        self, corpus: Corpus, cleaner: Cleaner, directory: pathlib.Path, vocabulary_pairs: int, seed: int
    ) -> CleanPairs:
        parts = parts_of(corpus)
        units = [
            (number, place, own)
            for number, (split, _) in enumerate(parts)
            for place, own in enumerate(blocks_of(split))
        ]
        count = corpus.splits["train"].count or 0
        logger.info("cleaning %s pairs on Beam, from %s places", f"{count:,}", f"{len(units):,}")
        buckets = min(_MAX_BUCKETS, 1 + count // _BUCKET_PAIRS) if cleaner.drop_duplicates else 0
        transform = CleanBlocks(
            self.jobs.scratch, dataclasses.replace(cleaner, drop_duplicates=False), buckets, self.block_pairs
        )
        found = self.jobs.collect(lambda pipeline: _clean_blocks(pipeline, units, transform))
        blocks: list[Block] = sorted(found, key=lambda block: block.key)
        by_part: dict[int, list[Block]] = collections.defaultdict(list)
        for block in blocks:
            by_part[block.key[0]].append(block)
        chunks: list[Any] = []
        for number, (_, weight) in enumerate(parts):
            first = sum(chunk.pairs for chunk in chunks[-1:]) + (chunks[-1].first if chunks else 0)
            chunks += chunks_of(by_part[number], number, weight, first, self.chunk_pairs)
        reports = [_report(cleaner, by_part[number]) for number in range(len(parts))]
        pairs = sum(block.pairs for block in blocks)
        return CleanPairs(reports, pairs, chunks, lambda: self._sample(blocks, vocabulary_pairs, seed))

    def encode(self, directory: pathlib.Path, pairs: CleanPairs, encoder: Encoder, fingerprint: str) -> TrainingRecords:
        logger.info("encoding %s pairs on Beam into %s shards", f"{pairs.pairs:,}", encoder.shards)
        units = [pairs.chunks[first : first + _UNIT_CHUNKS] for first in range(0, len(pairs.chunks), _UNIT_CHUNKS)]
        write = WriteShard(self.destination or str(directory), fingerprint)
        found = self.jobs.collect(lambda pipeline: _write_shards(pipeline, units, EncodeChunks(encoder), write))
        result = TrainingRecords()
        for _, part, *facts in sorted((each for kind, each in found if kind == COUNTS), key=lambda each: each[0]):
            result.count(part, *facts)
        shards = sorted((each for kind, each in found if kind != COUNTS), key=lambda each: each[0])
        lengths, numbers = (np.concatenate([counts[i] for *_, counts in shards]) for i in range(2))
        counts = LengthCounts.of(lengths, numbers)
        result.facts = split_facts(directory, "train", counts, [facts for _, facts, _ in shards])
        result.facts |= {"id_type": encoder.dtype.str}
        return result

    def _sample(self, blocks: list[Block], vocabulary_pairs: int, seed: int) -> list[bytes]:
        """The pairs that one machine would choose, which depends on their numbers alone, in the same order."""
        chosen = Subsample(vocabulary_pairs, sys.maxsize, seed)
        for number in range(sum(block.pairs for block in blocks)):
            chosen.add(number.to_bytes(8, "big"))
        order = np.frombuffer(b"".join(chosen.texts()), ">u8").astype(np.int64)
        ordered = np.sort(order)
        ends = np.cumsum([block.pairs for block in blocks])
        groups = np.split(ordered, np.searchsorted(ordered, ends[:-1]))
        samples = [
            BlockSample(block, own - (end - block.pairs), f"{block.path}-sample")
            for block, own, end in zip(blocks, groups, ends)
            if len(own)
        ]
        self.jobs.collect(lambda pipeline: _write_samples(pipeline, samples))
        texts = [text for sample in samples for text in sample.read()]
        places = np.searchsorted(ordered, order)
        return limit_bytes((texts[place] for place in places.tolist()), VOCABULARY_BYTES)


def _report(cleaner: Cleaner, blocks: list[Block]) -> CleaningReport:
    """The counts of all blocks of a part; every step of the cleaner has one."""
    report = cleaner.empty_report()
    for block in blocks:
        report.add(block.report)
    return report


def _clean_blocks(pipeline: "beam.Pipeline", units: list, transform: CleanBlocks) -> "beam.PCollection":
    import apache_beam as beam

    cleaned = (
        pipeline
        | "units" >> beam.Create(units)
        | beam.Reshuffle()
        | "clean" >> beam.FlatMap(transform).with_outputs(HASHES, main="blocks")
    )
    if not transform.buckets:
        return cleaned.blocks
    duplicates = cleaned[HASHES] | "group" >> beam.GroupByKey() | "find duplicates" >> beam.FlatMap(find_duplicates)
    blocks = cleaned.blocks | "by key" >> beam.WithKeys(lambda block: block.key)
    return (
        {"blocks": blocks, "duplicates": duplicates}
        | beam.CoGroupByKey()
        | "drop duplicates" >> beam.Map(drop_duplicates)
    )


def _write_samples(pipeline: "beam.Pipeline", samples: list[BlockSample]) -> "beam.PCollection":
    import apache_beam as beam

    return pipeline | beam.Create(samples) | beam.Reshuffle() | "write samples" >> beam.Map(BlockSample.write)


def _write_shards(
    pipeline: "beam.Pipeline", units: list, encode: EncodeChunks, write: WriteShard
) -> "beam.PCollection":
    import apache_beam as beam

    encoded = (
        pipeline
        | "units" >> beam.Create(units)
        | beam.Reshuffle()
        | "encode" >> beam.FlatMap(encode).with_outputs(COUNTS, main="ids")
    )
    shards = encoded.ids | "by shard" >> beam.GroupByKey() | "write shards" >> beam.Map(write)
    counts = encoded[COUNTS] | "of chunks" >> beam.Map(lambda each: (COUNTS, each))
    return (counts, shards | "of shards" >> beam.Map(lambda each: ("shard", each))) | beam.Flatten()
