"""Preparing a corpus: cleaned, a vocabulary trained, ids written, and all of it described, in one call."""

import dataclasses
import logging
import math
import os
import pathlib
from typing import Any

import numpy as np

from tf_transformer._files import atomic_directory, remove_leftovers_of
from tf_transformer.data._prepared import INFO, PreparedDataset, PreparedError, read_info
from tf_transformer.data.corpora import Corpus
from tf_transformer.data.preparation._cleaning import Cleaner, CleaningReport, training_cleaner
from tf_transformer.data.preparation._dataset_info import describe, differences, fingerprint, write_info
from tf_transformer.data.preparation._encoding import Encoder
from tf_transformer.data.preparation._engine import CleanPairs, Engine, OneMachine, parts_of
from tf_transformer.data.preparation._held_out import write_texts, write_validation_records
from tf_transformer.data.preparation._language_pairs import (
    balance,
    check_tokenizers,
    part_languages,
    runs_of,
    target_tags,
    trained_pair,
)
from tf_transformer.data.preparation._split_records import MAX_SHARDS
from tf_transformer.text import Tokenizer, TokenizerPair, default_vocab_size, save_tokenizers, train_model

logger = logging.getLogger(__name__)

# The phrasebook has a small lexicon: frequent words have a piece of their own, endings and numbers are put together.
# 256 of the pieces are bytes, which it does not need.
PHRASEBOOK_VOCAB_SIZE = 2256


@dataclasses.dataclass(frozen=True)
class PrepareOptions:
    """Options that determine the contents of a prepared directory, besides the corpus.

    Attributes:
        vocab_size: of the shared vocabulary; None for `default_vocab_size` of the languages and the corpus.
        max_length: training pairs with a longer side, in words or in tokens with EOS, are dropped.
        max_ratio: training pairs with a side so many times longer than the other, in characters, are dropped.
        drop_identical: whether training pairs with equal sides are dropped.
        drop_duplicates: whether repeated training pairs are dropped.
        vocabulary_pairs: maximum number of training pairs, chosen by `seed`, that the vocabulary is trained on.
        held_out_pairs: number of training pairs that become the validation set, if the corpus has none (at most 5 %).
        shard_pairs: approximate pairs per shard; more if there would be more than 128 shards.
        temperature: of the sampling of several language pairs; 1: as many of each as there are. The largest pair occurs
            once per epoch, one of n pairs (largest / n) ** (1 - 1 / temperature) times.
        seed: seed of all random choices.
    """

    vocab_size: int | None = None
    max_length: int = 256
    max_ratio: float = 3.0
    drop_identical: bool = False
    drop_duplicates: bool = True
    vocabulary_pairs: int = 500_000
    held_out_pairs: int = 2000
    shard_pairs: int = 32_768
    temperature: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("max_length", "max_ratio", "vocabulary_pairs", "shard_pairs", "temperature"):
            if getattr(self, name) < 1:
                raise ValueError(f"Expected {name} to be at least 1. Received: {getattr(self, name)}.")


def prepare(
    corpus: Corpus,
    output: str | os.PathLike,
    options: PrepareOptions | None = None,
    *,
    tokenizers: TokenizerPair | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    command: str = "",
    engine: Engine | None = None,
) -> PreparedDataset:
    """Write a prepared directory; do nothing if it was already prepared from the same inputs.

    Args:
        corpus: corpus from `open_corpus`.
        output: the directory, written atomically.
        options: options that determine its contents.
        tokenizers: those to use instead of training one, such as a model's that is to be trained further.
        workers: worker processes for encoding; None for one per core. The result does not depend on it.
        overwrite: whether a directory that was prepared before, from the same inputs or others, is replaced.
        command: command to record in `dataset.json`.
        engine: what cleans and encodes the training pairs; None for this machine. The result does not depend on it.
    """
    options = options or PrepareOptions()
    output = pathlib.Path(output)
    if tokenizers is not None:
        check_tokenizers(corpus, tokenizers)
    inputs = inputs_of(corpus, options, tokenizers)
    remove_leftovers_of(output)
    if _is_done(output, corpus, inputs, overwrite):
        logger.info("%s is prepared from the same inputs already: nothing to do", output)
        return PreparedDataset(output)
    with atomic_directory(output, exclusive=True) as directory:
        engine = engine or OneMachine(workers)
        splits, tokenizers, trained_on = _write(directory, corpus, options, tokenizers, engine, fingerprint(inputs))
        write_info(directory, describe(corpus, inputs, tokenizers, trained_on, splits, command))
    return PreparedDataset(output)


def inputs_of(corpus: Corpus, options: PrepareOptions, tokenizers: TokenizerPair | None) -> dict[str, object]:
    """Everything that decides the contents: equal inputs, equal directory."""
    given = dataclasses.asdict(options)
    if options.temperature == 1.0:
        del given["temperature"]  # the rule, and the fingerprints from before the field existed
    return {"corpus": corpus.fingerprint(), **given, "tokenizer": tokenizers.sha256 if tokenizers else None}


def _is_done(output: pathlib.Path, corpus: Corpus, inputs: dict, overwrite: bool) -> bool:
    """Return whether `output` is already prepared; raise PreparedError if it contains anything else."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return False
    if not (output / INFO).is_file():
        raise PreparedError(
            f"Expected a new or a prepared directory. Received: {output}, which has no {INFO}. Use another --output."
        )
    if (output / "checkpoints").exists() or (output / "config.json").exists():
        raise PreparedError(
            f"Expected a new or a prepared directory. Received: {output}, the work directory of a model. Use another "
            "--output."
        )
    try:
        info = read_info(output)
    except PreparedError:
        if overwrite:
            return False
        raise
    changed = differences(info, corpus, inputs)
    if changed and not overwrite:
        found = "".join(f"\n  {each}" for each in changed)
        raise PreparedError(
            f"Expected a new directory or one prepared from the same inputs. Received: {output}, which differs "
            f"in{found}\nGive --overwrite to replace it, or another --output."
        )
    return not changed and not overwrite and _is_complete(output, info)


def _is_complete(output: pathlib.Path, info: dict) -> bool:
    sizes: dict[str, int] = {}
    for split in info["splits"].values():
        sizes |= {shard["file"]: shard["bytes"] for shard in split.get("shards", ())}
        sizes |= {name: facts["bytes"] for name, facts in split.get("files", {}).items()}
    broken = [name for name, size in sizes.items() if not _has_size(output / name, size)]
    try:
        prepared = PreparedDataset(output)
        _ = prepared.tokenizers, prepared.length_counts()
    except ValueError as error:
        broken.append(str(error))
    if broken:
        logger.warning("%s is damaged (%s): preparing it again", output, ", ".join(broken))
    return not broken


def _has_size(path: pathlib.Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _write(
    directory: pathlib.Path,
    corpus: Corpus,
    options: PrepareOptions,
    tokenizers: TokenizerPair | None,
    engine: Engine,
    dataset: str,
) -> tuple[dict, TokenizerPair, int]:
    """Write all but `dataset.json`; return the facts of the splits, the tokenizers and their training pairs."""
    cleaned = engine.clean(corpus, _cleaner(options), directory, options.vocabulary_pairs, options.seed)
    reports = cleaned.reports
    if not cleaned.pairs:
        raise _nothing_left(_total(reports))
    if corpus.language_pairs:
        balance(cleaned, corpus.languages_of("train"), options.temperature)
    texts = [] if tokenizers else cleaned.sample()
    tokenizers = tokenizers or trained_pair(corpus, _train(texts, corpus, options, cleaned.pairs))
    save_tokenizers(tokenizers, directory)
    held_out = _choose_held_out(corpus, cleaned.pairs, options)
    encoder = Encoder(
        tokenizers.source.subwords,
        tokenizers.target.subwords,
        options.max_length,
        held_out,
        shards=_num_shards(cleaned, options),
        seed=options.seed,
        languages=tokenizers.languages,
        part_languages=part_languages(corpus, len(reports)) if tokenizers.languages else (),
    )
    train = engine.encode(directory, cleaned, encoder, dataset)
    report = _total(reports)
    report.dropped["too_many_tokens"] += train.too_long
    report.dropped["empty"] += train.empty
    report.kept -= train.too_long + train.empty + len(train.held_out)
    if not train.facts["pairs"]:
        raise _nothing_left(report)
    facts = {**train.facts, "cleaning": report.to_dict()}
    if len(reports) > 1:
        facts["corpora"] = _part_facts(corpus, reports, train.pairs_of_part)
    texts_written = write_texts(directory, corpus, train.held_out, train.held_out_parts)
    if "validation" in texts_written:
        runs = runs_of(corpus, texts_written["validation"]) if tokenizers.languages else ()
        texts_written["validation"] |= write_validation_records(directory, encoder, dataset, runs)
    return {"train": facts, **texts_written}, tokenizers, len(texts)


def _cleaner(options: PrepareOptions) -> Cleaner:
    return training_cleaner(
        max_words=options.max_length,
        max_ratio=options.max_ratio,
        drop_identical=options.drop_identical,
        drop_duplicates=options.drop_duplicates,
    )


def _num_shards(cleaned: CleanPairs, options: PrepareOptions) -> int:
    pairs = sum(chunk.pairs * chunk.weight for chunk in cleaned.chunks)
    return min(MAX_SHARDS, max(1, math.ceil(pairs / options.shard_pairs)))


def _total(reports: list[CleaningReport]) -> CleaningReport:
    total = CleaningReport()
    for report in reports:
        total.add(report)
    return total


def _nothing_left(report: CleaningReport) -> ValueError:
    return ValueError(
        f"Expected training pairs after cleaning. Received: none of {report.read} (dropped: {dict(report.dropped)}). "
        "Check that the two sides belong together, or relax the limits."
    )


def _part_facts(corpus: Corpus, reports: list[CleaningReport], pairs: dict[int, int]) -> list[dict[str, object]]:
    """For each of several training files its names, its weight, what cleaning did, and the pairs in the records."""
    identities: Any = corpus.identity["train"]
    parts = zip(identities, parts_of(corpus), reports)
    return [
        {
            "files": [facts["name"] for facts in identity.values() if isinstance(facts, dict)],
            **({"languages": identity["languages"]} if "languages" in identity else {}),
            "weight": weight,
            "cleaning": report.to_dict(),
            "pairs": pairs.get(number, 0),
        }
        for number, (identity, (_, weight), report) in enumerate(parts)
    ]


def _train(texts: list[bytes], corpus: Corpus, options: PrepareOptions, pairs: int) -> Tokenizer:
    size = options.vocab_size or (
        PHRASEBOOK_VOCAB_SIZE
        if corpus.spec == "phrasebook"
        else default_vocab_size(corpus.source_language or "", corpus.target_language or "", pairs)
    )
    logger.info("training a vocabulary of %s pieces on %s pairs", f"{size:,}", f"{len(texts):,}")
    sentences = (side for text in texts for side in text.split(b"\n"))
    tags = target_tags(corpus)
    return Tokenizer(train_model(sentences, size, exact=options.vocab_size is not None, control_symbols=tags))


def _choose_held_out(corpus: Corpus, pairs: int, options: PrepareOptions) -> frozenset[int]:
    """Numbers of training pairs for a validation set, if the corpus has none."""
    if "validation" in corpus.splits:
        return frozenset()
    count = min(options.held_out_pairs, pairs // 20)
    logger.info("the corpus has no validation set: %s training pairs are held out for one", f"{count:,}")
    return frozenset(np.random.default_rng(options.seed).choice(pairs, count, replace=False).tolist())
