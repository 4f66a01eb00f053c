"""Failure detection: loops before and after on text outside a model's domain, and its cost for normal sentences.

    python -m benchmarks.failure_detection --workdir RUN --source news.en --reference news.de --normal test.en --json

The loops are counted by a definition of their own, not by the check of the search: a loop is a sequence of one to eight
words that occurs at least four times in succession, and not so often in the source. `--normal` are sentences inside the
domain; those without a warning are translated with and without detection, by the same model, in turns, batch by batch.
`overhead_percent` is the median of the rounds' ratios of processor time, which depends less on other jobs than the time
of the clock (`overhead_percent_wall`) does.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import statistics
import time

REPEATS, LONGEST = 4, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workdir", required=True, help="work directory of a model")
    parser.add_argument("--source", help="sentences outside its domain, one per line")
    parser.add_argument("--reference", help="their translations, for chrF")
    parser.add_argument("--normal", help="sentences inside its domain, for the overhead")
    parser.add_argument("--limit", type=int, help="lines of the source to use (default: all)")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = measure(args)
    print(json.dumps(figures) if args.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


def measure(args: argparse.Namespace) -> dict:
    """All figures that there are files for."""
    from tf_transformer.decoding import Translator
    from tf_transformer.workdir import Workdir

    on = Translator.from_workdir(args.workdir, failure_detection=True)
    decoding = dataclasses.replace(on.decoding, failure_detection=False)
    # The same weights: those of two models would drive each other out of the processor's caches.
    off = Translator(on.model, Workdir(args.workdir).tokenizers, decoding, on.source_language)
    figures = loops(off, on, args) if args.source else {}
    return figures | (overhead(off, on, read_lines(args.normal), args.rounds) if args.normal else {})


def loops(off, on, args: argparse.Namespace) -> dict:
    """Loops, warnings and chrF without and with detection."""
    sources = read_lines(args.source)[: args.limit]
    before = [row.texts[0] for row in off.best(sources, as_sentences=True)]
    found = on.best(sources, as_sentences=True)
    after, warnings = [row.texts[0] for row in found], [row.warnings for row in found]
    changed = [one != other for one, other in zip(before, after)]
    figures = {
        "sentences": len(sources),
        "loops_before": sum(map(has_loop, before, sources)),
        "loops_after": sum(map(has_loop, after, sources)),
        "warned": sum(map(bool, warnings)),
        "warnings": dict(collections.Counter(code for codes in warnings for code in codes)),
        "changed": sum(changed),
        "changed_without_warning": sum(c and not codes for c, codes in zip(changed, warnings)),
    }
    if args.reference:
        figures |= quality(before, after, read_lines(args.reference)[: args.limit], changed)
    return figures


def read_lines(path: str) -> list[str]:
    return pathlib.Path(path).read_text(encoding="utf-8").split("\n")[:-1]


def has_loop(text: str, source: str) -> bool:
    """Whether a text has a loop that its source does not have."""
    return most_repeats(text) >= max(REPEATS, most_repeats(source) + 1)


def most_repeats(text: str) -> int:
    """The largest number of successive occurrences of a sequence of at most LONGEST words."""
    words, most = text.split(), 1
    for size in range(1, LONGEST + 1):
        run = 0
        for one, other in zip(words, words[size:]):
            run = run + 1 if one == other else 0
            most = max(most, run // size + 1)
    return most


def quality(before: list[str], after: list[str], references: list[str], changed: list[bool]) -> dict:
    """chrF of all translations, and of those that changed."""
    import sacrebleu

    rows = [number for number, flag in enumerate(changed) if flag]

    def chrf(texts: list[str], numbers) -> float:
        chosen = [texts[n] for n in numbers], [[references[n] for n in numbers]]
        return round(sacrebleu.corpus_chrf(*chosen).score, 2)

    figures = {"chrf_before": chrf(before, range(len(before))), "chrf_after": chrf(after, range(len(before)))}
    if rows:
        figures |= {"chrf_of_changed_before": chrf(before, rows), "chrf_of_changed_after": chrf(after, rows)}
    return figures


def overhead(off, on, sources: list[str], rounds: int) -> dict:
    """Extra processor time for sentences without a warning, in batches of 32 and one by one."""
    found = on.best(sources, as_sentences=True)
    normal = [source for source, row in zip(sources, found) if not row.warnings]
    figures: dict = {"normal_sentences": len(normal), "normal_warned": len(sources) - len(normal)}
    for size in (32, 1):
        batches = [normal[n * size : (n + 1) * size] for n in range(4 if size == 32 else 16)]
        found = [one_round(off, on, batches, number) for number in range(rounds + 1)][1:]
        for name, ratios in zip(("overhead_percent", "overhead_percent_wall"), zip(*found)):
            figures[f"{name}_batch_{size}"] = round(100 * (statistics.median(ratios) - 1), 2)
    return figures


def one_round(off, on, batches: list[list[str]], number: int) -> tuple[float, float]:
    """Time with detection by time without it, of the processor and of the clock. Which comes first alternates."""
    times = {off: [0.0, 0.0], on: [0.0, 0.0]}
    for place, batch in enumerate(batches):
        for translator in (off, on) if (number + place) % 2 else (on, off):
            start = time.process_time(), time.perf_counter()
            translator.best(batch, as_sentences=True)
            times[translator][0] += time.process_time() - start[0]
            times[translator][1] += time.perf_counter() - start[1]
    return times[on][0] / times[off][0], times[on][1] / times[off][1]


if __name__ == "__main__":
    main()
