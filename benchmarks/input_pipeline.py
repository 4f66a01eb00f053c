"""Tokens per second of the input pipeline, and the share of padding.

    python -m benchmarks.input_pipeline --data DIR --batch-tokens 25000

Without --data it prepares a generated corpus first. Beside our buckets and packing stands the usual `tf.data` way on
the same records: shuffle in a buffer and `bucket_by_sequence_length`.
"""

import argparse
import itertools
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from benchmarks.synthetic_text import write_parallel_text
from tf_transformer.data import BatchOptions, BatchStream, PreparedDataset, PrepareOptions, open_corpus, prepare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a prepared directory")
    parser.add_argument("--pairs", type=int, default=100_000, help="of the generated corpus")
    parser.add_argument("--batch-tokens", type=int, default=25_000)
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.data:
        figures = measure(PreparedDataset(args.data), args)
    else:
        with tempfile.TemporaryDirectory() as directory:
            figures = measure(_generated(pathlib.Path(directory), args.pairs), args)
    print(json.dumps(figures) if args.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


def measure(prepared: PreparedDataset, args: argparse.Namespace) -> dict:
    figures = {"pairs": len(prepared.examples), "batch_tokens": args.batch_tokens}
    for batching in ("bucket", "pack"):
        begun = time.perf_counter()
        stream = BatchStream(prepared, BatchOptions(args.batch_tokens, args.max_length, batching), seed=1)
        figures[f"{batching}_padding"] = round(stream.padding(), 4)
        figures[f"{batching}_shapes"] = len(stream.shapes)
        figures[f"{batching}_batches_per_epoch"] = stream.batches_per_epoch()
        figures[f"{batching}_planning_seconds"] = round(time.perf_counter() - begun, 2)
        batches = (batch for batch, _ in stream.batches())
        figures[f"{batching}_tokens_per_second"], _ = _rate(batches, args.seconds)
    figures["tf_data_tokens_per_second"], figures["tf_data_padding"] = _rate(_tf_data(prepared, args), args.seconds)
    figures["ratio_tf_data"] = round(figures["bucket_tokens_per_second"] / figures["tf_data_tokens_per_second"], 2)
    return figures


def _rate(batches: Iterator[dict], seconds: float) -> tuple[int, float]:
    """Real tokens (source and target) a second, after a few batches to warm up, and the share of padding."""
    for _ in itertools.islice(batches, 5):
        pass
    tokens = places = 0
    begun = time.perf_counter()
    for batch in batches:
        for name in ("source", "labels"):
            tokens += int(np.count_nonzero(batch[name]))
            places += batch[name].size
        if time.perf_counter() - begun > seconds:
            break
    return round(tokens / (time.perf_counter() - begun)), round(1 - tokens / places, 4)


def _tf_data(prepared: PreparedDataset, args: argparse.Namespace) -> Iterator[dict]:
    """The records through `tf.data` alone, as most translation code does it."""
    train = prepared.info["splits"]["train"]
    id_type = tf.as_dtype(np.dtype(train["id_type"]))
    start, end = prepared.special_ids.start, prepared.tokenizers.source.eos_id

    def parse(record):
        ids = tf.cast(tf.io.decode_raw(record, id_type), tf.int32)
        cut = tf.argmax(ids == end) + 1  # the source ends at the first EOS
        target = ids[cut:]
        return {"source": ids[:cut], "target": tf.concat([[start], target[:-1]], 0), "labels": target}

    def length(pair):
        return tf.maximum(tf.size(pair["source"]), tf.size(pair["labels"]))

    bounds = [int(8 * 1.2**i) for i in range(40) if 8 * 1.2**i < args.max_length] + [args.max_length + 1]
    sizes = [max(1, args.batch_tokens // bound) for bound in bounds]
    files = [str(prepared.path / shard["file"]) for shard in train["shards"]]
    dataset = tf.data.TFRecordDataset(files).shuffle(50_000, seed=1).repeat()
    dataset = dataset.map(parse, tf.data.AUTOTUNE).filter(lambda pair: length(pair) <= args.max_length)
    return iter(
        dataset.bucket_by_sequence_length(length, bounds, [*sizes, 1])
        .prefetch(tf.data.AUTOTUNE)
        .as_numpy_iterator()
    )  # fmt: skip


def _generated(directory: pathlib.Path, pairs: int) -> PreparedDataset:
    files = {"train": write_parallel_text(directory, pairs)}
    corpus = open_corpus("files", source_language="en", target_language="de", files=files)
    return prepare(corpus, directory / "prepared", PrepareOptions(vocab_size=16_000), workers=1)


if __name__ == "__main__":
    main()
