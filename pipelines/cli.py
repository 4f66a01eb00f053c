"""The command line: `tf-transformer VERB …`, one module a verb.

A verb's module has `add_arguments(parser)` and `run(args) -> exit code`. It is imported only when its verb is
called, and imports TensorFlow only when it runs, so that help is instant.
"""

import argparse
import importlib
import logging
import os
import re
import shlex
import sys
import textwrap

from tf_transformer._version import __version__

VERBS = {
    "demo": "the whole walk on the built-in phrasebook, in minutes",
    "prepare": "turn a corpus into a prepared directory",
    "train": "train, or resume where WORKDIR stopped",
    "average": "average the last checkpoints",
    "evaluate": "score a model: sacreBLEU with its signature, chrF, perplexity",
    "translate": "translate lines of text",
    "score": "log-probability of given pairs",
    "export": "write a SavedModel that TensorFlow Serving answers strings with",
    "inspect": "what is inside a SavedModel, and which servers load it",
    "serve": "a local server with TensorFlow Serving's REST paths",
    "attention": "attention maps as a picture and as a page",
    "plot": "learning curves of one or more runs",
    "import": "bring in weights trained elsewhere",
    "ablate": "train rows of the paper's Table 3",
    "presets": "list the presets with their parameter counts",
}

# Verbs that Python does not allow as the name of a module.
_MODULES = {"import": "import_weights"}

INTERRUPTED = 130


class _Help(argparse.HelpFormatter):
    """Fills paragraphs to the width of the terminal; indented ones, which are commands, stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = re.split(r"\n{2,}", text.strip("\n"))
        return "\n\n".join(
            part if part.startswith("    ") else textwrap.fill(part, width, break_on_hyphens=False)
            for part in paragraphs
        )


def main(argv: list[str] | None = None) -> int:
    """Runs one verb and returns its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    argv = sys.argv[1:] if argv is None else list(argv)
    _prepare_environment()
    parser = _parser(argv)
    args = parser.parse_args(argv)
    args.command = shlex.join(["tf-transformer", *argv])
    if args.verb is None:
        parser.print_help()
        return 2
    _configure_logging(args.verbose)
    return _run(args)


def main_of(verb: str) -> None:
    """Runs `verb` with this process's arguments: what `python -m pipelines.<verb>` calls."""
    sys.exit(main([verb, *sys.argv[1:]]))


def _run(args: argparse.Namespace) -> int:
    try:
        return args.run(args) or 0
    except (ValueError, OSError) as error:
        if args.verbose:
            raise
        print(f"tf-transformer {args.verb}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"tf-transformer {args.verb}: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser(argv: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tf-transformer",
        description='The Transformer of "Attention Is All You Need": from sentence pairs to a served string.',
        epilog="`tf-transformer VERB --help` tells more. Start with `tf-transformer demo`.",
    )
    parser.add_argument("--version", action="version", version=f"tf-transformer {__version__}")
    parser.set_defaults(verb=None, verbose=False)
    verbs = parser.add_subparsers(metavar="VERB", title="verbs")
    called = next((word for word in argv if not word.startswith("-")), None)
    for verb, summary in VERBS.items():
        child = verbs.add_parser(verb, help=summary, description=summary)
        if verb == called:
            _add_verb(child, verb)
    return parser


def _add_verb(child: argparse.ArgumentParser, verb: str) -> None:
    module = importlib.import_module(f"tf_transformer.pipelines.{_MODULES.get(verb, verb)}")
    child.description = module.__doc__
    child.formatter_class = _Help
    module.add_arguments(child)
    child.add_argument("--verbose", action="store_true", help="more messages, and tracebacks of errors")
    child.set_defaults(verb=verb, run=module.run)


def _prepare_environment() -> None:
    """Settings that have to be there before TensorFlow is imported; what the user has set stays."""
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")


def _configure_logging(verbose: bool) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("tf_transformer").setLevel(logging.DEBUG if verbose else logging.INFO)


if __name__ == "__main__":
    sys.exit(main())
