"""All steps on the built-in phrasebook: prepare, train, average, evaluate, export, inspect, serve, translate.

It takes minutes on two CPU cores and needs no network. If interrupted, run it again to resume. Each command is printed
before it runs, so that it can be repeated by hand.
"""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import sys
import time

from tf_transformer._model_versions import list_versions, newest_version
from tf_transformer.pipelines import cli

UNSEEN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", default="runs/demo", metavar="DIR", help="directory of everything (default: %(default)s)"
    )
    parser.add_argument("--preset", default="tiny", help="the model to train (default: %(default)s)")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="SECTION.FIELD=VALUE", help="passed on to train"
    )


def run(args: argparse.Namespace) -> int:
    from tf_transformer.presets import get_preset

    get_preset(args.preset).override(args.settings)  # a mistake in the flags is reported before any work
    started = time.monotonic()
    folder = pathlib.Path(args.output)
    data, workdir, base = folder / "data", folder / "run", folder / "model" / "phrasebook"
    overrides = [word for setting in args.settings for word in ("--set", setting)]
    steps = [
        ("Generate the phrasebook and its vocabulary", ["prepare", "--data", "phrasebook", "--output", data]),
        ("Train", ["train", "--data", data, "--workdir", workdir, "--preset", args.preset, *overrides]),
        ("Average the last checkpoints", ["average", "--workdir", workdir]),
        ("Evaluate it on unseen sentences", ["evaluate", "--workdir", workdir]),
        (
            "Export a SavedModel, with a parity check in a separate process",
            ["export", "--workdir", workdir, "--output", base],
        ),
        ("Inspect the SavedModel", ["inspect", base / "1"]),
    ]
    total = len(steps) + 2
    for number, (title, command) in enumerate(steps, start=1):
        if command[0] == "inspect":
            command = ["inspect", newest_version(base)]
        _announce(number, total, title, _words(command))
        if command[0] == "export" and _is_exported(workdir, base):
            print(f"{base} has this model already.", file=sys.stderr)
        elif code := cli.main([*map(str, command), *(["--verbose"] if args.verbose else [])]):
            print(f"\nTo resume from here, run again: {args.command}", file=sys.stderr)
            return code
    sources, references = _unseen_sentences(data)
    _announce(total - 1, total, "Translate over HTTP", _words(["serve", base]))
    _ask_over_http(base, sources[0])
    shown = f"echo {shlex.quote(sources[0])} | {_words(['translate', '--workdir', workdir])}"
    _announce(total, total, "Translate unseen sentences", shown)
    _translate(workdir, sources, references)
    print(_farewell(folder, data, workdir, base, time.monotonic() - started), file=sys.stderr)
    return 0


def _words(command: list) -> str:
    return shlex.join(["tf-transformer", *map(str, command)])


def _announce(number: int, total: int, title: str, command: str) -> None:
    print(f"\n[{number}/{total}] {title}\n      $ {command}", file=sys.stderr, flush=True)


def _is_exported(workdir: pathlib.Path, base: pathlib.Path) -> bool:
    """Return whether the newest version of the export has the weights that an export would write now."""
    from tf_transformer.workdir import Workdir
    from tf_transformer.workdir.checkpoints import read_info

    if not list_versions(base):
        return False
    exported = json.loads((newest_version(base) / "model.json").read_bytes())["checkpoint"]
    return exported.get("sha256") == read_info(Workdir(workdir).checkpoint())["files"]["model.safetensors"]["sha256"]


def _unseen_sentences(data: pathlib.Path) -> tuple[list[str], list[str]]:
    """Sources that are not in the training split, and their references."""
    from tf_transformer.data import PreparedDataset
    from tf_transformer.data.corpora.phrasebook.corpus import HELD_OUT

    pairs = list(zip(*PreparedDataset(data).lines("test")))
    chosen = dict([*HELD_OUT, *pairs[:: max(1, len(pairs) // UNSEEN)]])
    return list(chosen), list(chosen.values())


def _ask_over_http(base: pathlib.Path, source: str) -> None:
    from tf_transformer.export.serving import server_in_thread
    from tf_transformer.export.serving.client import Client

    with server_in_thread(base) as server:
        url = f"http://127.0.0.1:{server.port}/v1/models/{server.name}"
        body = json.dumps({"instances": [source]})
        print(f"      $ curl -d {shlex.quote(body)} {url}:predict", file=sys.stderr)
        (translation,) = Client(url).translate([source])
    print(f"{source!r} -> {translation!r}")


def _translate(workdir: pathlib.Path, sources: list[str], references: list[str]) -> None:
    from tf_transformer.decoding import Translator

    for source, reference, translation in zip(sources, references, Translator.from_workdir(workdir)(sources)):
        verdict = "same as the reference" if translation == reference else f"reference: {reference}"
        print(f"{source}\n    {translation}    ({verdict})")


def _farewell(
    folder: pathlib.Path, data: pathlib.Path, workdir: pathlib.Path, base: pathlib.Path, seconds: float
) -> str:
    return f"""
Done in {seconds / 60:.1f} minutes. Everything is in {folder}:
    {data}    records, vocabulary, plain-text validation and test
    {workdir}     configuration, checkpoints, logs, scores
    {base}    the SavedModel, for TensorFlow Serving

What next?{_activation()}
    translate your own:      echo "seven old bakers" | tf-transformer translate --workdir {workdir}
    see the attention:       tf-transformer attention --workdir {workdir} "seven old bakers"
    serve it here:           tf-transformer serve {base}
    serve it with Docker:    docker run -p 8501:8501 -e MODEL_NAME=phrasebook -e TF_ENABLE_ONEDNN_OPTS=1 \\
                               -v {base.resolve()}:/models/phrasebook tensorflow/serving
    train on your files:     tf-transformer prepare --data files --train-source a.en --train-target a.de \\
                               --source-language en --target-language de --output mine
                             tf-transformer train --data mine --workdir mine-run --preset small
    train on WMT14:          tf-transformer prepare --data tfds:wmt14_translate/de-en --source-language en \\
                               --target-language de --output wmt14
                             tf-transformer train --data wmt14 --workdir base --preset base"""


def _activation() -> str:
    """A line that activates the virtual environment, if the command is not on the path, as after `make demo`."""
    if shutil.which("tf-transformer"):
        return ""
    script = pathlib.Path(sys.prefix) / "bin" / "activate"
    return f"\n    first, in this shell:    source {shlex.quote(os.path.relpath(script))}"


if __name__ == "__main__":
    cli.main_of("demo")
