"""The command line: `tf-transformer VERB …`, one module per verb.

A verb's module has `add_arguments(parser)` and `run(args) -> exit code`. It is imported only when its verb is
called, and imports TensorFlow only when it runs, so that help is instant.
"""

import argparse
import difflib
import importlib
import logging
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterable

from tf_transformer._startup_messages import suppress_startup_messages
from tf_transformer._version import __version__
from tf_transformer.pipelines._text_io import quiet_broken_pipe

VERBS = {
    "demo": "all steps on the built-in phrasebook, in minutes",
    "prepare": "convert a corpus to a prepared directory",
    "train": "train a model, or resume a run",
    "average": "average the last checkpoints",
    "distill": "train a small, fast student on a teacher's translations",
    "evaluate": "score a model: sacreBLEU with its signature, chrF, perplexity",
    "translate": "translate lines of text",
    "shortlist": "build a table of candidate translations, for faster decoding",
    "score": "log-probability of given pairs",
    "export": "write a SavedModel with text in and text out, for TensorFlow Serving",
    "inspect": "describe a SavedModel, and which servers load it",
    "serve": "a local server with TensorFlow Serving's REST paths",
    "attention": "attention maps as figures and as a page",
    "plot": "learning curves of one or more runs",
    "import": "import a model trained elsewhere",
    "ablate": "train rows of the paper's Table 3",
    "presets": "list the presets with their parameter counts",
}

# Verbs that Python does not allow as the name of a module.
_MODULES = {"import": "import_weights"}

INTERRUPTED = 130


class _Help(argparse.HelpFormatter):
    """Help formatter that fills paragraphs to the width of the terminal, except indented ones, which are commands."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # Private API of argparse.
        paragraphs = re.split(r"\n{2,}", text.strip("\n"))
        return "\n\n".join(
            part if part.startswith("    ") else textwrap.fill(part, width, break_on_hyphens=False)
            for part in paragraphs
        )


def main(argv: list[str] | None = None) -> int:
    """Run one verb and return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args = _parse(argv)
    if args is None:
        return 2
    args.command = shlex.join(["tf-transformer", *argv])
    _prepare_environment(args.verbose)
    _configure_logging(args.verbose)
    return _run(args)


def main_of(verb: str) -> None:
    """Run `verb` with this process's arguments: what `python -m pipelines.<verb>` calls."""
    sys.exit(main([verb, *sys.argv[1:]]))


def _run(args: argparse.Namespace) -> int:
    code = 0
    try:
        with quiet_broken_pipe(only_stdout=True):
            code = args.run(args) or 0
            sys.stdout.flush()  # when Python exits it would be too late to be quiet
        return code
    except (ValueError, OSError) as error:
        if args.verbose:
            raise
        print(f"tf-transformer {args.verb}: {_message(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"tf-transformer {args.verb}: interrupted", file=sys.stderr)
        return INTERRUPTED


def _message(error: Exception) -> str:
    """An error as one sentence or more; those of the operating system without their number, and with the file."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def _parse(argv: list[str]) -> argparse.Namespace | None:
    """The arguments, or None after printing help if there is no verb. Wrong usage exits with code 2."""
    parser = argparse.ArgumentParser(
        prog="tf-transformer",
        description='The Transformer of "Attention Is All You Need": from sentence pairs to a served model.',
        epilog="`tf-transformer VERB --help` describes a verb. Start with `tf-transformer demo`.",
    )
    parser.add_argument("--version", action="version", version=f"tf-transformer {__version__}")
    parser.set_defaults(verb=None, verbose=False)
    verbs, children = parser.add_subparsers(metavar="VERB", title="verbs"), {}
    called = next((word for word in argv if not word.startswith("-")), None)
    for verb, summary in VERBS.items():
        child = children[verb] = verbs.add_parser(verb, help=summary, description=summary)
        if verb == called:
            _add_verb(child, verb)
            _reject_unknown_flags(child, argv[argv.index(verb) + 1 :])
    if called is not None and called not in VERBS:
        parser.error(f"Expected a verb: {', '.join(VERBS)}. Received: {called}.{_closest(called, VERBS)}")
    args, words = parser.parse_known_args(argv)
    if words:
        (parser if called is None else children[called]).error(_extra_words(args.verb, words))
    if args.verb is None:
        parser.print_help()
        return None
    return args


def _reject_unknown_flags(parser: argparse.ArgumentParser, words: list[str]) -> None:
    """Print the verb's usage and the closest flag, and exit, if a flag is misspelt."""
    known = list(parser._option_string_actions)  # Private API: argparse has no public list of them.
    for word in words[: words.index("--")] if "--" in words else words:
        flag = word.partition("=")[0]
        if flag.startswith("--") and not any(name.startswith(flag) for name in known):
            parser.error(f"Expected a flag listed above. Received: {flag}.{_closest(flag, known)}")


def _extra_words(verb: str | None, words: list[str]) -> str:
    message = f"Expected only the flags and arguments listed above. Received: {', '.join(map(repr, words))}."
    return f"{message} Give text by standard input or --input." if verb == "translate" else message


def _closest(word: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(word, known, n=1)
    return f" Did you mean {found[0]}?" if found else ""


def _add_verb(child: argparse.ArgumentParser, verb: str) -> None:
    module = importlib.import_module(f"tf_transformer.pipelines.{_MODULES.get(verb, verb)}")
    child.description = module.__doc__
    child.formatter_class = _Help
    module.add_arguments(child)
    child.add_argument(
        "--verbose", action="store_true", help="more messages, TensorFlow's among them, and tracebacks of errors"
    )
    child.set_defaults(verb=verb, run=module.run)


def _prepare_environment(verbose: bool) -> None:
    """Make the settings that TensorFlow reads when it is imported; what the user has set stays."""
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    if not verbose:
        suppress_startup_messages()


def _configure_logging(verbose: bool) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("tf_transformer").setLevel(logging.DEBUG if verbose else logging.INFO)


if __name__ == "__main__":
    sys.exit(main())
