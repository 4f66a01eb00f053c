"""Convert a corpus to a prepared directory: TFRecords of ids, a vocabulary, plain-text validation and test.

SPEC is `phrasebook` (built in), `tfds:wmt14_translate/de-en` (or another builder and pair), or `files` with the files
named below: files of parallel lines for each split, plain, .gz or .xz, or TSVs.

    tf-transformer prepare --data phrasebook --output data
    tf-transformer prepare --data files --train-source a.en --train-target a.de --source-language en \\
        --target-language de --output data
    tf-transformer prepare --pair en-de:a.en:a.de --pair en-fr:b.en:b.fr --temperature 5 --output data
"""

import argparse
import json
import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from tf_transformer.pipelines import cli
from tf_transformer.pipelines._beam_arguments import add_engine_arguments, beam_jobs

if TYPE_CHECKING:
    from tf_transformer._beam import BeamJobs
    from tf_transformer.data import Corpus

SPLITS = ("train", "validation", "test")
_PAIRS = {"train": "pair", "validation": "validation-pair", "test": "test-pair"}
_PAIR = re.compile(r"(?P<source>[\w]+)-(?P<target>[\w]+):(?P<one>(\w+://)?[^:]+):(?P<other>(\w+://)?[^:]+)")
_FILES = tuple(f"{split}_{kind}" for split in SPLITS for kind in ("source", "target", "tsv"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="SPEC", help="phrasebook, files, or tfds:BUILDER/PAIR (with --pair: files)")
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="prepared directory to write; it appears when complete"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a directory prepared from other inputs")
    parser.add_argument("--source-language", metavar="CODE", help="such as en")
    parser.add_argument("--target-language", metavar="CODE", help="such as de")
    files = parser.add_argument_group("files (with --data files)")
    for split in SPLITS:
        for side in ("source", "target"):
            text = f"{side}s of {split}, one sentence per line; repeatable, may be a glob"
            files.add_argument(f"--{split}-{side}", action="append", default=[], metavar="FILE", help=text)
        text = "or both in one file: source, tab, target"
        files.add_argument(f"--{split}-tsv", action="append", default=[], metavar="FILE", help=text)
    files.add_argument(
        "--train-weight", action="append", default=[], type=float, metavar="X",
        help="how often each pair of the files occurs per epoch (default 1); once per --train-source or --train-tsv",
    )  # fmt: skip
    several = parser.add_argument_group("several language pairs, for one multilingual model")
    for split, flag in _PAIRS.items():
        text = f"files of {split} for one language pair; repeatable, the files may be globs"
        several.add_argument(f"--{flag}", action="append", default=[], metavar="SOURCE-TARGET:FILE:FILE", help=text)
    several.add_argument(
        "--temperature", type=float, default=1.0, metavar="T",
        help="repeat small pairs: each is sampled in proportion to its size to the power of 1/T (default 1: none is)",
    )  # fmt: skip
    tfds = parser.add_argument_group("TensorFlow Datasets (with --data tfds:…)")
    tfds.add_argument("--data-dir", metavar="DIR", help="directory of downloads and prepared corpora")
    tfds.add_argument("--manual-dir", metavar="DIR", help="directory of files downloaded by hand")
    vocabulary = parser.add_argument_group("vocabulary")
    vocabulary.add_argument(
        "--vocab-size",
        type=int,
        metavar="N",
        help="pieces (default: 37000 for en–de, 32000 for other languages, at most 32 times the square root of the "
        "number of pairs; 2256 for the phrasebook)",
    )
    vocabulary.add_argument("--tokenizer", metavar="DIR", help="use the tokenizer files of this directory instead")
    _add_cleaning(parser.add_argument_group("cleaning of the training pairs"))
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="random seed (default 1)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core)")
    add_engine_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the whole dataset.json instead of a summary")


def _add_cleaning(group: Any) -> None:
    group.add_argument("--max-length", type=int, default=256, metavar="N",
                       help="drop pairs with more words or tokens on a side (default 256)")  # fmt: skip
    group.add_argument("--max-ratio", type=float, default=3.0, metavar="X",
                       help="drop pairs with a side more than X times as long as the other (default 3)")  # fmt: skip
    group.add_argument("--drop-identical", action="store_true", help="drop pairs whose sides are equal")
    group.add_argument("--keep-duplicates", action="store_true", help="keep repeated pairs")


def run(args: argparse.Namespace) -> int:
    from tf_transformer.data import PrepareOptions, prepare
    from tf_transformer.text import load_tokenizers

    options = PrepareOptions(
        vocab_size=args.vocab_size,
        max_length=args.max_length,
        max_ratio=args.max_ratio,
        drop_identical=args.drop_identical,
        drop_duplicates=not args.keep_duplicates,
        temperature=args.temperature,
        seed=args.seed,
    )
    given: dict[str, Any] = {
        "tokenizers": load_tokenizers(args.tokenizer) if args.tokenizer else None,
        "overwrite": args.overwrite,
        "command": args.command,
    }
    with beam_jobs(args) as jobs:
        if jobs is None:
            prepared = prepare(_corpus(args), args.output, options, workers=args.workers, **given)
        else:
            from tf_transformer.data.preparation.on_beam import prepare_on_beam

            prepared = prepare_on_beam(_corpus(args, jobs), args.output, jobs, options, **given)
    text = json.dumps(prepared.info, indent=2, ensure_ascii=False) if args.json else prepared.summary(args.output)
    print(text)
    return 0


def _corpus(args: argparse.Namespace, jobs: "BeamJobs | None" = None) -> "Corpus":
    pairs = _language_pairs(args)
    data, files = _data(args, bool(pairs)), pairs or _files(args)
    if jobs is not None and data == "files":
        from tf_transformer.data.corpora import open_text_files_on_beam

        return open_text_files_on_beam(files, args.source_language, args.target_language, jobs)
    from tf_transformer.data import open_corpus

    return open_corpus(
        data,
        source_language=args.source_language,
        target_language=args.target_language,
        files=files,
        data_dir=args.data_dir,
        manual_dir=args.manual_dir,
        seed=args.seed,
    )


def _data(args: argparse.Namespace, several: bool) -> str:
    """The corpus that the flags name; files if there are several language pairs."""
    given = [flag for flag in ("source_language", "target_language", "train_weight", *_FILES) if getattr(args, flag)]
    if several and (args.data not in (None, "files") or given):
        found = f"--{given[0].replace('_', '-')}" if given else f"--data {args.data}"
        raise ValueError(f"Expected --pair without other corpora and languages. Received: {found}. Leave it out.")
    if args.data is None and not several:
        raise ValueError("Expected a corpus. Received: none. Give --data phrasebook, files or tfds:…, or --pair.")
    if args.temperature != 1.0 and not several:
        raise ValueError(f"Expected --temperature with --pair. Received: --temperature {args.temperature:g} alone.")
    return args.data or "files"


def _language_pairs(args: argparse.Namespace) -> dict:
    """The files of several language pairs per split."""
    from tf_transformer.data import WeightedFiles

    files: dict = {}
    for split, flag in _PAIRS.items():
        for text in getattr(args, flag.replace("-", "_")):
            match = _PAIR.fullmatch(text)
            if match is None:
                raise ValueError(
                    f"Expected --{flag} SOURCE-TARGET:FILE:FILE, such as en-de:train.en:train.de. Received: {text!r}."
                )
            languages = match["source"], match["target"]
            files.setdefault(split, []).append(WeightedFiles(match["one"], match["other"], languages=languages))
    if files and "train" not in files:
        raise ValueError("Expected --pair SOURCE-TARGET:FILE:FILE to train on. Received: none. Add it.")
    return files


def _files(args: argparse.Namespace) -> dict:
    """The files per split with their weights; a TSV has no target."""
    from tf_transformer.data import WeightedFiles

    files = {}
    for split in SPLITS:
        sources, targets, tsvs = (getattr(args, f"{split}_{kind}") for kind in ("source", "target", "tsv"))
        if len(targets) not in (0, len(sources)) and sources:
            raise ValueError(
                f"Expected a --{split}-target for each --{split}-source. Received: {len(sources)} sources and "
                f"{len(targets)} targets."
            )
        pairs = [*zip_longest(sources, targets), *((tsv, None) for tsv in tsvs)]
        weights = args.train_weight if split == "train" else []
        if len(weights) not in (0, len(pairs)):
            raise ValueError(
                f"Expected one --{split}-weight for each --{split}-source and --{split}-tsv, or none. Received: "
                f"{len(weights)} weights for {len(pairs)} of them."
            )
        if pairs:
            files[split] = [WeightedFiles(*pair, weight) for pair, weight in zip(pairs, weights or [1.0] * len(pairs))]
    return files


if __name__ == "__main__":
    cli.main_of("prepare")
