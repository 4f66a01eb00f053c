"""The whole walk on the built-in phrasebook: prepare, train, average, evaluate, export, inspect, serve, translate.

Minutes on two CPU cores, and no network. Interrupted and run again, it goes on where it was. Each step is a command
that is printed before it runs, so that it can be repeated by hand.
"""

import argparse
import pathlib
import shlex
import sys
import time

from tf_transformer.pipelines import cli

UNSEEN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", default="runs/demo", metavar="DIR", help="where everything goes (default: %(default)s)"
    )
    parser.add_argument("--preset", default="tiny", help="the model to train (default: %(default)s)")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="SECTION.FIELD=VALUE", help="passed on to train"
    )


def run(args: argparse.Namespace) -> int:
    started = time.monotonic()
    folder = pathlib.Path(args.output)
    data, workdir, base = folder / "data", folder / "run", folder / "model" / "phrasebook"
    overrides = [word for setting in args.settings for word in ("--set", setting)]
    steps = [
        ("Make up the phrasebook and its vocabulary", ["prepare", "--data", "phrasebook", "--output", data]),
        ("Train", ["train", "--data", data, "--workdir", workdir, "--preset", args.preset, *overrides]),
        ("Average the last checkpoints", ["average", "--workdir", workdir]),
        ("Score it on sentences it has never seen", ["evaluate", "--workdir", workdir]),
        ("Export a SavedModel, checked in a process of its own", ["export", "--workdir", workdir, "--output", base]),
        ("Look inside the SavedModel", ["inspect", base / "1"]),
    ]
    total = len(steps) + 2
    for number, (title, command) in enumerate(steps, start=1):
        _announce(number, total, title, command)
        if command[0] == "export" and (base / "1").is_dir():
            print(f"{base / '1'} is there already.", file=sys.stderr)
        elif code := cli.main([str(word) for word in command]):
            return code
    sources, references = _unseen_sentences(data)
    _announce(total - 1, total, "Ask for a translation over HTTP", ["serve", base])
    _ask_over_http(base, sources[0])
    _announce(total, total, "Translate sentences it has never seen", ["translate", "--workdir", workdir])
    _translate(workdir, sources, references)
    print(_farewell(folder, data, workdir, base, time.monotonic() - started), file=sys.stderr)
    return 0


def _announce(number: int, total: int, title: str, command: list) -> None:
    words = shlex.join(["tf-transformer", *map(str, command)])
    print(f"\n[{number}/{total}] {title}\n      $ {words}", file=sys.stderr, flush=True)


def _unseen_sentences(data: pathlib.Path) -> tuple[list[str], list[str]]:
    """Sources that are not in train, and their references: one phrase held out by name, others from the test set."""
    from tf_transformer.data.phrasebook.corpus import HELD_OUT
    from tf_transformer.data.prepared import PreparedDataset

    pairs = list(zip(*PreparedDataset(data).lines("test")))
    chosen = dict([*HELD_OUT, *pairs[:: max(1, len(pairs) // UNSEEN)]])
    return list(chosen), list(chosen.values())


def _ask_over_http(base: pathlib.Path, source: str) -> None:
    from tf_transformer.export.client import Client
    from tf_transformer.export.server_thread import server_in_thread

    with server_in_thread(base) as server:
        url = f"http://127.0.0.1:{server.port}/v1/models/{server.name}"
        print(f"POST {url}:predict", file=sys.stderr)
        (translation,) = Client(url).translate([source])
    print(f"{source!r} -> {translation!r}")


def _translate(workdir: pathlib.Path, sources: list[str], references: list[str]) -> None:
    from tf_transformer.decoding.translator import Translator

    for source, reference, translation in zip(sources, references, Translator.from_workdir(workdir)(sources)):
        verdict = "as the phrasebook has it" if translation == reference else f"the phrasebook has: {reference}"
        print(f"{source}\n    {translation}    ({verdict})")


def _farewell(folder, data, workdir, base, seconds: float) -> str:
    return f"""
Done in {seconds / 60:.1f} minutes. Everything is in {folder}:
    {data}    records, vocabulary, plain-text validation and test
    {workdir}     configuration, checkpoints, logs, scores
    {base}    the SavedModel, for TensorFlow Serving

What next?
    translate your own:      echo "seven old bakers" | tf-transformer translate --workdir {workdir}
    see the attention:       tf-transformer attention --workdir {workdir} "seven old bakers"
    serve it here:           tf-transformer serve {base}
    serve it with Docker:    docker run -p 8501:8501 -e MODEL_NAME=phrasebook -e TF_ENABLE_ONEDNN_OPTS=1 \\
                               -v {base.resolve()}:/models/phrasebook tensorflow/serving
    train on your files:     tf-transformer prepare --data files --train-source a.en --train-target a.de … --output data
    train on WMT14:          tf-transformer prepare --data tfds:wmt14_translate/de-en --source-language en \\
                               --target-language de --output wmt14
                             tf-transformer train --data wmt14 --workdir base --preset base"""


if __name__ == "__main__":
    cli.main_of("demo")
