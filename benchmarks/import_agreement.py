"""Agreement and speed of an imported CTranslate2 model and CTranslate2 itself.

    python -m benchmarks.import_agreement --model model.argosmodel

`--model` is an Argos package or a CTranslate2 folder, `--text` a file with a sentence a line. The rows of the table:

    ours = CTranslate2 float32    both compute in float32
    ours = CTranslate2 int8       it rounds what flows into each matrix to 8 bits, too
    CTranslate2 int8 = float32    what that rounding does to CTranslate2 itself
    rounded = ours                what it does to ours: the same rounding, otherwise float32
    rounded = CTranslate2 int8    two programs that round alike
    CTranslate2 int8 = oneDNN     CTranslate2's int8 with another of its libraries: it is told to do without MKL
    CTranslate2 int8 = generic    and without vector instructions

The last three are far from all: one value that falls to the other side of a rounding, because a sum was taken in
another order, changes all that follow it. `tests/parity/test_ctranslate2_rounding.py` shows that one layer is the same.

With `--reference`, translations of `--text` by people, also sacreBLEU with the search settings that each program has by
default: ours are those of the imported work directory, CTranslate2's those of `translate_batch`.

Searches are greedy and with a beam, without a length penalty, of which the two have different ones. The speeds are
medians over rounds in which the programs take turns with the same sentences, in one call each.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ("float32", "int8")
LONGEST = 256
# How CTranslate2 is told, before it is loaded, to take other code for the same computation.
OTHERS = {"oneDNN": {"CT2_USE_MKL": "0"}, "generic": {"CT2_FORCE_CPU_ISA": "GENERIC"}}


def main() -> None:
    args = _parse()
    if args.model is None:
        print("import_agreement: no --model was given, left out", file=sys.stderr)
        return
    texts = args.text.read_text(encoding="utf-8").splitlines()[: args.rows]
    if args.child:
        print(json.dumps(Theirs(args.model, ("int8",), args.threads)("int8", texts, args.beams[0])))
        return
    with tempfile.TemporaryDirectory() as scratch:
        both = Both(args.model, pathlib.Path(scratch), args.threads)
        figures = {} if args.no_agreement else {"agreement": agreement(both, texts, args)}
        if args.reference is not None:
            references = args.reference.read_text(encoding="utf-8").splitlines()[: args.rows]
            figures["sacreBLEU"] = {"default search": scores(both, texts, references)}
        if args.rounds:
            figures["sentences_per_second"] = speeds(both, texts[: args.batch], args.beams, args.rounds)
    if args.json:
        print(json.dumps(figures | ratios(figures.get("sentences_per_second", {})), ensure_ascii=False))
    else:
        print(_table(figures, len(texts)))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, help="an .argosmodel, or a folder with CTranslate2's model.bin")
    parser.add_argument(
        "--text", type=pathlib.Path, default=HERE / "chinese_sentences.txt", help="text, one sentence per line"
    )
    parser.add_argument("--reference", type=pathlib.Path, help="text, the translation of each sentence")
    parser.add_argument("--rows", type=int, default=None, help="take the first so many sentences only")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=0, help="of timing; 0: none")
    parser.add_argument("--batch", type=int, default=32, help="sentences that are timed")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of CTranslate2")
    parser.add_argument("--no-agreement", action="store_true", help="time only")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


class Theirs:
    """CTranslate2's translators of a folder, by how they compute."""

    def __init__(self, folder: pathlib.Path, kinds: tuple[str, ...], threads: int):
        import ctranslate2
        import sentencepiece

        from tf_transformer.importing import sentencepiece_files

        self._pieces = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_files(folder)[0])
        self._runtimes = {
            kind: ctranslate2.Translator(str(folder), compute_type=kind, intra_threads=threads) for kind in kinds
        }

    def __call__(self, kind: str, texts: list[str], beam: int) -> list[str]:
        return self.translated(kind, texts, beam_size=beam, length_penalty=0, max_decoding_length=LONGEST)

    def translated(self, kind: str, texts: list[str], **search: float) -> list[str]:
        """Translations with options of `translate_batch`, and its defaults for the others."""
        pieces = self._pieces.encode(texts, out_type=str)
        found = self._runtimes[kind].translate_batch(pieces, max_batch_size=32, **search)
        return ["".join(each.hypotheses[0]).replace("▁", " ").strip() for each in found]


class Both:
    """One model in CTranslate2, `theirs`, and imported into ours."""

    def __init__(self, model: pathlib.Path, scratch: pathlib.Path, threads: int):
        from tf_transformer.importing import import_model, unpack

        folder = model
        if model.is_file():
            unpack(model, scratch / "unpacked")
            folder = scratch / "unpacked"
        self.folder = next(folder.rglob("model.bin")).parent
        self.workdir = import_model(self.folder, scratch / "run")
        self.theirs = Theirs(self.folder, KINDS, threads)
        self._model = self.workdir.load_model(for_inference=True)

    def translator(self, beam: int):
        """Our translator."""
        import dataclasses

        from tf_transformer.decoding import Translator

        # CTranslate2 takes a line for one sentence, searches once and produces UNK.
        same = {"alpha": 0.0, "segmentation": False, "failure_detection": False, "unknown": "keep"}
        decoding = dataclasses.replace(self.workdir.config.decoding, beam_size=beam, **same)
        return Translator(self._model, self.workdir.tokenizers, decoding)

    def otherwise(self, name: str, beam: int, args: argparse.Namespace) -> list[str]:
        """CTranslate2's int8 translations in a process of its own, by other code."""
        command = [sys.executable, "-m", "benchmarks.import_agreement", "--child", "--model", str(self.folder)]
        command += ["--text", str(args.text.resolve()), "--beams", str(beam), "--threads", str(args.threads)]
        command += [] if args.rows is None else ["--rows", str(args.rows)]
        done = subprocess.run(
            command, cwd=HERE.parent, env={**os.environ, **OTHERS[name]}, capture_output=True, check=True
        )
        return json.loads(done.stdout.splitlines()[-1])


def agreement(both: Both, texts: list[str], args: argparse.Namespace) -> dict[str, dict[str, int]]:
    """Number of texts that each pair of programs translates alike, by beam size."""
    figures = {}
    for beam in args.beams:
        theirs = {kind: both.theirs(kind, texts, beam) for kind in KINDS}
        ours = both.translator(beam)(texts)
        with rounded_activations():
            rounded = both.translator(beam)(texts)
        figures[f"beam {beam}"] = {
            "ours = CTranslate2 float32": _same(ours, theirs["float32"]),
            "ours = CTranslate2 int8": _same(ours, theirs["int8"]),
            "CTranslate2 int8 = float32": _same(theirs["int8"], theirs["float32"]),
            "rounded = ours": _same(rounded, ours),
            "rounded = CTranslate2 int8": _same(rounded, theirs["int8"]),
        }
        for name in OTHERS:
            found = _same(theirs["int8"], both.otherwise(name, beam, args))
            figures[f"beam {beam}"][f"CTranslate2 int8 = {name}"] = found
        print(f"beam {beam}: {figures[f'beam {beam}']}", file=sys.stderr, flush=True)
    return figures


def scores(both: Both, texts: list[str], references: list[str]) -> dict[str, float | int]:
    """sacreBLEU of each program with its default search, and the number of translations equal to CTranslate2's.

    A line is one sentence, as for `evaluate`. Ours is also run with failure detection, which imports turn off: it
    searches again where its checks find a failure.
    """
    import sacrebleu

    from tf_transformer.decoding import Translator

    checked = {"failure_detection": True}
    found = {
        name: [each.texts[0] for each in Translator.from_workdir(both.workdir.path, **options).best(texts, True)]
        for name, options in {"ours": {}, "ours, with failure detection": checked}.items()
    }
    ours = list(found)
    found |= {f"CTranslate2 {kind}": both.theirs.translated(kind, texts) for kind in KINDS}
    for row in zip(found["CTranslate2 float32"], *(found[name] for name in ours), strict=True):
        if len(set(row)) > 1:
            print(json.dumps(row, ensure_ascii=False), file=sys.stderr)
    figures = {name: round(sacrebleu.corpus_bleu(each, [references]).score, 2) for name, each in found.items()}
    return figures | {
        f"{name} = CTranslate2 float32": _same(found[name], found["CTranslate2 float32"]) for name in ours
    }


def _same(one: list[str], other: list[str]) -> int:
    return sum(a == b for a, b in zip(one, other, strict=True))


@contextlib.contextmanager
def rounded_activations():
    """Within it, translators are traced with inputs of projections and of the projection to logits in 8 bits.

    That is what CTranslate2 does where its weights are int8: each row is multiplied by 127 / max |x| and rounded. The
    weights of an imported int8 model are such numbers already.
    """
    from tf_transformer.layers import Projection, SharedEmbedding

    apply, logits = Projection.apply, SharedEmbedding.logits
    Projection.apply = lambda layer, x: apply(layer, _rounded(x))
    SharedEmbedding.logits = lambda layer, x: logits(layer, _rounded(x))
    try:
        yield
    finally:
        Projection.apply, SharedEmbedding.logits = apply, logits


def _rounded(x):
    """`x` (…, D) with each row as whole numbers from -127 to 127 times one factor."""
    import tensorflow as tf

    largest = tf.reduce_max(tf.abs(x), axis=-1, keepdims=True)
    scale = tf.where(largest > 0, 127.0 / largest, 1.0)
    return tf.round(x * scale) / scale


def speeds(both: Both, texts: list[str], beams: list[int], rounds: int) -> dict[str, dict[str, float]]:
    """Sentences per second of each program, by beam: medians over the rounds, after one that does not count."""
    figures = {}
    for beam in beams:
        ours = both.translator(beam)
        programs = {"ours": lambda: ours(texts)}  # noqa: B023
        programs |= {f"CTranslate2 {kind}": lambda kind=kind: both.theirs(kind, texts, beam) for kind in KINDS}  # noqa: B023
        seconds: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(rounds + 1):
            for name, run in programs.items():
                began = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - began)
        figures[f"beam {beam}"] = {
            name: round(len(texts) / statistics.median(times[1:]), 2) for name, times in seconds.items()
        }
    return figures


def ratios(sentences_per_second: dict[str, dict[str, float]]) -> dict[str, float]:
    """Our speed divided by CTranslate2's with the widest beam (the last one): higher is better."""
    if not sentences_per_second:
        return {}
    speeds = list(sentences_per_second.values())[-1]
    return {f"ratio_ctranslate2_{kind}": round(speeds["ours"] / speeds[f"CTranslate2 {kind}"], 3) for kind in KINDS}


def _table(figures: dict, count: int) -> str:
    lines = []
    for title, beams in figures.items():
        of = f" of {count}" if title == "agreement" else ""
        for beam, rows in beams.items():
            lines += [f"{title}, {beam}: {name:28} {value}{of}" for name, value in rows.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
