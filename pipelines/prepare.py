"""Convert a corpus to a prepared directory: TFRecords of ids, a vocabulary, plain-text validation and test.

SPEC is `phrasebook` (built in), `tfds:wmt14_translate/de-en` (or another builder and pair), or `files` with the files
named below: two files of parallel lines per split, plain, .gz or .xz, or one TSV.

    tf-transformer prepare --data phrasebook --output data
    tf-transformer prepare --data files --train-source a.en --train-target a.de --source-language en \\
        --target-language de --output data
"""

import argparse
import json

from tf_transformer.pipelines import cli

SPLITS = ("train", "validation", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, metavar="SPEC", help="phrasebook, files, or tfds:BUILDER/PAIR")
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="prepared directory to write; it appears when complete"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a directory prepared from other inputs")
    parser.add_argument("--source-language", metavar="CODE", help="such as en")
    parser.add_argument("--target-language", metavar="CODE", help="such as de")
    files = parser.add_argument_group("files (with --data files)")
    for split in SPLITS:
        files.add_argument(f"--{split}-source", metavar="FILE", help=f"sources of {split}, one sentence per line")
        files.add_argument(f"--{split}-target", metavar="FILE", help=f"targets of {split}, one sentence per line")
        files.add_argument(f"--{split}-tsv", metavar="FILE", help="or both in one file: source, tab, target")
    tfds = parser.add_argument_group("TensorFlow Datasets (with --data tfds:…)")
    tfds.add_argument("--data-dir", metavar="DIR", help="directory of downloads and prepared corpora")
    tfds.add_argument("--manual-dir", metavar="DIR", help="directory of files downloaded by hand")
    vocabulary = parser.add_argument_group("vocabulary")
    vocabulary.add_argument(
        "--vocab-size",
        type=int,
        metavar="N",
        help="pieces (default: 37000 for en–de, 32000 for other pairs, 2000 for the phrasebook)",
    )
    vocabulary.add_argument("--tokenizer", metavar="DIR", help="use the tokenizer files of this directory instead")
    _add_cleaning(parser.add_argument_group("cleaning of the training pairs"))
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="random seed (default 1)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core)")
    parser.add_argument("--json", action="store_true", help="print the whole dataset.json instead of a summary")


def _add_cleaning(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--max-length", type=int, default=256, metavar="N",
                       help="drop pairs with more words or tokens on a side (default 256)")  # fmt: skip
    group.add_argument("--max-ratio", type=float, default=3.0, metavar="X",
                       help="drop pairs with a side more than X times as long as the other (default 3)")  # fmt: skip
    group.add_argument("--drop-identical", action="store_true", help="drop pairs whose sides are equal")
    group.add_argument("--keep-duplicates", action="store_true", help="keep repeated pairs")


def run(args: argparse.Namespace) -> int:
    from tf_transformer.data import PrepareOptions, open_corpus, prepare
    from tf_transformer.text import load_tokenizers

    options = PrepareOptions(
        vocab_size=args.vocab_size,
        max_length=args.max_length,
        max_ratio=args.max_ratio,
        drop_identical=args.drop_identical,
        drop_duplicates=not args.keep_duplicates,
        seed=args.seed,
    )
    corpus = open_corpus(
        args.data,
        source_language=args.source_language,
        target_language=args.target_language,
        files=_files(args),
        data_dir=args.data_dir,
        manual_dir=args.manual_dir,
        seed=args.seed,
    )
    prepared = prepare(
        corpus,
        args.output,
        options,
        tokenizers=load_tokenizers(args.tokenizer) if args.tokenizer else None,
        workers=args.workers,
        overwrite=args.overwrite,
        command=args.command,
    )
    print(json.dumps(prepared.info, indent=2, ensure_ascii=False) if args.json else prepared.summary())
    return 0


def _files(args: argparse.Namespace) -> dict[str, tuple]:
    """The files per split; a TSV has no target."""
    files = {}
    for split in SPLITS:
        source, target, tsv = (getattr(args, f"{split}_{kind}") for kind in ("source", "target", "tsv"))
        if tsv and (source or target):
            raise ValueError(
                f"Expected --{split}-tsv, or --{split}-source and --{split}-target. Received: both. Give one of them."
            )
        if tsv or source or target:
            files[split] = (tsv, None) if tsv else (source, target)
    return files


if __name__ == "__main__":
    cli.main_of("prepare")
