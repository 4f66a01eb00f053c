"""Import a model trained elsewhere: Marian (OPUS-MT, Firefox), Hugging Face's Marian, CTranslate2, Argos packages.

The result is a work directory for translate, evaluate, score, attention, export and train.
"""

import argparse
import ctypes
import os
import shlex

from tf_transformer.pipelines import cli

_M_MMAP_THRESHOLD = -3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from", dest="path", required=True, metavar="PATH",
        help="a folder with the model or its zip, Marian's .npz or .bin, an .argosmodel; or a model to download: "
        "hf:OWNER/NAME[@REVISION] of the Hugging Face hub, or https://….zip",
    )  # fmt: skip
    parser.add_argument("--workdir", required=True, metavar="DIR", help="work directory to write; must not exist")
    parser.add_argument(
        "--source-tokenizer", metavar="FILE", help="SentencePiece model, if it is not next to the weights"
    )
    parser.add_argument(
        "--target-tokenizer", metavar="FILE", help="SentencePiece model of the target, if it is another one"
    )
    parser.add_argument("--source-language", metavar="CODE", help="language code, if the files do not name it")
    parser.add_argument("--target-language", metavar="CODE", help="language code, if the files do not name it")
    parser.add_argument("--sha256", metavar="DIGEST", help="checksum that a downloaded or local file must have")
    parser.add_argument(
        "--keep-languages", metavar="CODES", default="",
        help="remove the vocabulary's rows that text in the scripts of these languages does not need, such as de,en",
    )  # fmt: skip
    parser.add_argument(
        "--keep-pieces-of", metavar="FILE", nargs="+", default=[],
        help="remove the vocabulary's rows that these text files do not need; give source and target text",
    )  # fmt: skip
    parser.add_argument(
        "--sample", metavar="TEXT", help="sentence to translate in the report; default: one in the source language"
    )
    parser.add_argument("--no-sample", action="store_true", help="no translation in the report")
    parser.add_argument(
        "--licence", "--license", help="licence of the model, if the files do not name it; written to the model card"
    )


def _return_freed_memory() -> None:
    """Let freed arrays return to the system at once: an import reads and frees gigabytes of them.

    glibc keeps those below 32 MB, which most weights are; TensorFlow with oneDNN keeps all of its own.
    """
    os.environ.setdefault("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 1 << 20)


def run(args: argparse.Namespace) -> int:
    if not os.path.exists(args.path) and not args.path.startswith("hf:") and "://" not in args.path:
        raise ValueError(_missing(args.path))
    _return_freed_memory()
    from tf_transformer.importing import import_model, report, translate_sample

    workdir = import_model(
        args.path,
        args.workdir,
        source_tokenizer=args.source_tokenizer,
        target_tokenizer=args.target_tokenizer,
        languages=(args.source_language, args.target_language),
        licence=args.licence,
        sha256=args.sha256,
        keep_languages=[code.strip() for code in args.keep_languages.split(",") if code.strip()],
        keep_pieces_of=args.keep_pieces_of,
    )
    if not args.no_sample:
        translate_sample(workdir, args.sample)
    print(report(workdir))
    return 0


def _missing(path: str) -> str:
    """The message about a model that does not exist: where to get it, as far as its name shows."""
    name = os.path.basename(os.path.normpath(path))
    where = "A model of the Hugging Face hub is downloaded with `--from hf:OWNER/NAME`."
    if name.startswith("opus-mt-"):
        where = f"To download it: `--from {shlex.quote(f'hf:Helsinki-NLP/{name}')}`."
    return f"Expected a folder or a file with a model. Received: {path}, which does not exist. {where}"


if __name__ == "__main__":
    cli.main_of("import")
