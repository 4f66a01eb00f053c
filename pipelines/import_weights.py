"""Import a model trained elsewhere: Marian (OPUS-MT, Firefox), Hugging Face's Marian, CTranslate2, Argos packages.

The result is a work directory for translate, evaluate, score, attention, export and train.
"""

import argparse
import json
import os
import shlex
from typing import TYPE_CHECKING

from tf_transformer.pipelines import cli

if TYPE_CHECKING:
    from tf_transformer.workdir import Workdir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from", dest="path", required=True, metavar="PATH",
        help="a folder with the model or its zip, Marian's .npz or .bin, or an .argosmodel",
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
    parser.add_argument(
        "--licence", "--license", help="licence of the model, if the files do not name it; written to the model card"
    )


def run(args: argparse.Namespace) -> int:
    if not os.path.exists(args.path):
        raise ValueError(_missing(args.path))
    from tf_transformer.importing import import_model

    workdir = import_model(
        args.path,
        args.workdir,
        source_tokenizer=args.source_tokenizer,
        target_tokenizer=args.target_tokenizer,
        languages=(args.source_language, args.target_language),
        licence=args.licence,
    )
    print(_report(workdir))
    return 0


def _report(workdir: "Workdir") -> str:
    """The work directory, what was imported, and the next commands."""
    facts = json.loads((workdir.path / "import.json").read_text(encoding="utf-8"))
    languages = [workdir.dataset_info.get(f"{side}_language") or "not stated" for side in ("source", "target")]
    decoding = workdir.config.decoding
    return "\n".join(
        [
            str(workdir.path),
            f"Model: {facts['format']}, {facts['parameters']:,} parameters",
            f"Languages: {' to '.join(languages)}",
            f"Licence: {facts['licence'] or 'not stated'}",
            f"Search: beam {decoding.beam_size}, length penalty {decoding.length_penalty}, alpha {decoding.alpha:g}",
            "Next:",
            f"  tf-transformer translate --workdir {workdir.path}",
            f"  tf-transformer export --workdir {workdir.path} --output MODEL_BASE",
        ]
    )


def _missing(path: str) -> str:
    """The message about a model that does not exist: where to get it, as far as its name shows."""
    name = os.path.basename(os.path.normpath(path))
    where = "Download the model first, for example from https://huggingface.co/Helsinki-NLP (OPUS-MT)."
    if name.startswith("opus-mt-"):
        where = f"Download it first: `hf download Helsinki-NLP/{name} --local-dir {shlex.quote(path)}`."
    return f"Expected a folder or a file with a model. Received: {path}, which does not exist. {where}"


if __name__ == "__main__":
    cli.main_of("import")
