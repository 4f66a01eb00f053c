"""Target tokens per second of the input pipeline, the padding of its batches, and how fast it resumes.

    python -m benchmarks.input_pipeline --data DIR --batch-tokens 25000
    python -m benchmarks.input_pipeline --pairs 3600000

Without --data it prepares a generated corpus first. Our buckets and packing are compared with two others on the same
records: the NumPy batches that version 0.1 made in a thread, and the usual `tf.data` way, which shuffles pairs in a
buffer and calls `bucket_by_sequence_length`.
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

from benchmarks import numpy_batches
from benchmarks.synthetic_text import write_parallel_text
from tf_transformer.data import (
    BatchOptions,
    Position,
    PreparedDataset,
    PrepareOptions,
    batch_shapes,
    open_corpus,
    prepare,
    training_dataset,
)

MIN_BATCHES = 800


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a prepared directory")
    parser.add_argument("--pairs", type=int, default=250_000, help="of the generated corpus")
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
    figures = {"pairs": prepared.info["splits"]["train"]["pairs"], "batch_tokens": args.batch_tokens}
    for batching in ("bucket", "pack"):
        options = BatchOptions(args.batch_tokens, args.max_length, batching)
        figures[f"{batching}_shapes"] = len(batch_shapes(prepared, options))
        for threads in (1, 2):
            dataset = _with_threads(training_dataset(prepared, options), threads)
            rate, padding = _rate(dataset.as_numpy_iterator(), args.seconds)
            figures[f"{batching}_{threads}_threads_tokens_per_second"] = rate
        dataset = training_dataset(prepared, options)
        figures[f"{batching}_tokens_per_second"], padding = _rate(dataset.as_numpy_iterator(), args.seconds)
        figures[f"{batching}_padding"] = padding
        figures |= {f"{batching}_{name}": value for name, value in _resume(prepared, options).items()}
    options = BatchOptions(args.batch_tokens, args.max_length)
    old = numpy_batches.batches(prepared, batch_shapes(prepared, options), args.max_length)
    figures["numpy_tokens_per_second"], figures["numpy_padding"] = _rate(old, args.seconds)
    figures["tf_data_tokens_per_second"], figures["tf_data_padding"] = _rate(_tf_data(prepared, args), args.seconds)
    for peer in ("numpy", "tf_data"):
        figures[f"ratio_{peer}"] = round(figures["bucket_tokens_per_second"] / figures[f"{peer}_tokens_per_second"], 2)
    return figures


def _with_threads(dataset: tf.data.Dataset, threads: int) -> tf.data.Dataset:
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    return dataset.with_options(options)


def _rate(batches: Iterator[dict], seconds: float) -> tuple[int, float]:
    """Target tokens per second without padding, after a few batches to warm up, and the share of padding."""
    for _ in itertools.islice(batches, 20):
        pass
    target = tokens = places = seen = 0
    begun = time.perf_counter()
    for batch in batches:
        own = int(np.count_nonzero(batch["labels"]))
        target, tokens = target + own, tokens + own + int(np.count_nonzero(batch["source"]))
        places += batch["labels"].size + batch["source"].size
        seen, elapsed = seen + 1, time.perf_counter() - begun
        # Long enough to contain the planning of a part, which one batch in some hundreds waits for.
        if elapsed > seconds and (seen > MIN_BATCHES or elapsed > 12 * seconds):
            break
    return round(target / (time.perf_counter() - begun)), round(1 - tokens / places, 4)


def _resume(prepared: PreparedDataset, options: BatchOptions) -> dict[str, float]:
    """Seconds from a position near the end of the third epoch's middle part to its next batch, all included."""
    shards = len(prepared.info["splits"]["train"]["shards"])
    pairs = prepared.info["splits"]["train"]["pairs"]
    parts = max(1, min(shards, round(pairs / 262_144)))
    begun = time.perf_counter()
    dataset = training_dataset(PreparedDataset(prepared.path), options, position=Position(3, parts // 2, 150))
    next(dataset.as_numpy_iterator())
    return {"parts": parts, "resume_seconds": round(time.perf_counter() - begun, 2)}


def _tf_data(prepared: PreparedDataset, args: argparse.Namespace) -> Iterator[dict]:
    """The records through `tf.data` pair by pair, as most translation code does it."""
    train = prepared.info["splits"]["train"]
    id_type = tf.as_dtype(np.dtype(train["id_type"]))
    bos = prepared.special_ids.bos
    feature = tf.io.FixedLenFeature([], tf.string)

    def pairs(record):
        parsed = tf.io.parse_single_example(record, {name: feature for name in ("source", "target", "lengths")})
        lengths = tf.reshape(tf.io.decode_raw(parsed["lengths"], tf.int32), [-1, 2])
        sides = [
            tf.RaggedTensor.from_row_lengths(tf.cast(tf.io.decode_raw(parsed[name], id_type), tf.int32), lengths[:, i])
            for i, name in enumerate(("source", "target"))
        ]
        return tf.data.Dataset.from_tensor_slices(tuple(sides))

    def inputs(source, target):
        return {"source": source, "target": tf.concat([[bos], target[:-1]], 0), "labels": target}

    def length(pair):
        return tf.maximum(tf.size(pair["source"]), tf.size(pair["labels"]))

    bounds = [int(8 * 1.2**i) for i in range(40) if 8 * 1.2**i < args.max_length] + [args.max_length + 1]
    sizes = [max(1, args.batch_tokens // bound) for bound in bounds]
    files = [str(prepared.path / shard["file"]) for shard in train["shards"]]
    dataset = tf.data.TFRecordDataset(files).flat_map(pairs).shuffle(50_000, seed=1).repeat()
    dataset = dataset.map(inputs, tf.data.AUTOTUNE).filter(lambda pair: length(pair) <= args.max_length)
    return iter(
        dataset.bucket_by_sequence_length(length, bounds, [*sizes, 1])
        .prefetch(tf.data.AUTOTUNE)
        .as_numpy_iterator()
    )  # fmt: skip


def _generated(directory: pathlib.Path, pairs: int) -> PreparedDataset:
    files = {"train": write_parallel_text(directory, pairs)}
    corpus = open_corpus("files", source_language="en", target_language="de", files=files)
    return prepare(corpus, directory / "prepared", PrepareOptions(vocab_size=16_000), workers=2)


if __name__ == "__main__":
    main()
