"""Latency of single sentences, ours beside CTranslate2 behind the same HTTP layer, in one run.

    python -m benchmarks.latency --json
    python -m benchmarks.latency --workdir run --clients 1 8 64 --rounds 5 --json

All engines are served by our own server, each in a process of its own, with the same options: our exports with
float32, packed and int8 weights, and CTranslate2 with float32 and int8. Clients send one sentence per request, each the
next when it has its answer. Rounds of the engines alternate. `ratio_<peer>` is our median time per request divided into
theirs, at one client: above 1 we are faster; `packed_ratio_<peer>` and `int8_ratio_<peer>` are those of our other
exports. Without --workdir a base-size model with random weights is served, whose outputs are forced to be three tokens
longer than their sources. CTranslate2 is left out if it is not installed, or if it cannot express the model.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from benchmarks.kept_exports import kept_folder
from benchmarks.serving import load
from benchmarks.synthetic_text import write_parallel_text

ENVIRONMENT = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
OURS: dict[str, dict[str, Any]] = {
    "ours": {"weights": "float32"},
    "ours_packed": {"weights": "float32", "packed": True},
    "ours_int8": {"weights": "int8"},
}
ENGINES = (*OURS, "ctranslate2_float32", "ctranslate2_int8")
EXTRA_LENGTH = 3


def main() -> None:
    args = _parse()
    if args.child:
        serve_engine(args)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(args.models or scratch)
        workdir = pathlib.Path(args.workdir) if args.workdir else random_run(folder, args)
        models = export_engines(workdir, folder, args)
        if not args.rounds:
            return
        figures = measure(models, sentences(pathlib.Path(scratch), workdir, args), args)
    print(json.dumps(figures) if args.json else table(figures))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workdir", help="a model (default: base size with random weights)")
    parser.add_argument("--preset", default="base", help="of the model with random weights")
    parser.add_argument("--vocab", type=int, default=32000, help="its vocabulary")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--models", help="folder to keep the exports in, for several runs")
    parser.add_argument("--rounds", type=int, default=5, help="0: only export")
    parser.add_argument("--seconds", type=float, default=20.0, help="per engine, number of clients and round")
    parser.add_argument("--input", help="file with one sentence per line (default: synthetic text)")
    parser.add_argument("--tokens", type=int, default=25, help="tokens of a synthetic sentence")
    parser.add_argument("--shortlist", help="table for our export; not used by the peers")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    return parser.parse_args()


def random_run(folder: pathlib.Path, args: argparse.Namespace) -> pathlib.Path:
    """A work directory of a model with random weights and a tokenizer of synthetic text."""
    path = kept_folder(folder, "run", preset=args.preset, vocab=args.vocab)
    if path.exists():
        return path
    os.environ.update(ENVIRONMENT)
    from tf_transformer.model import Transformer
    from tf_transformer.presets import get_preset
    from tf_transformer.text import TokenizerPair, train_tokenizer
    from tf_transformer.training import with_vocabulary
    from tf_transformer.workdir import Workdir, model_tensors
    from tf_transformer.workdir.checkpoints import save_checkpoint, step_directory

    folder.mkdir(exist_ok=True)
    source, _ = write_parallel_text(folder, pairs=40_000)
    lines = source.read_text(encoding="utf-8").splitlines()
    tokenizers = TokenizerPair.of(train_tokenizer(lines, args.vocab, exact=False))
    config = get_preset(args.preset)
    decoding = dataclasses.replace(
        config.decoding,
        min_length=100_000,
        max_extra_length=EXTRA_LENGTH,
        segmentation=False,
        failure_detection=False,  # forced lengths repeat themselves and would be translated twice
    )
    config = with_vocabulary(dataclasses.replace(config, decoding=decoding), tokenizers)
    workdir = Workdir.create(path, config, tokenizers, {"source_language": "en", "target_language": "de"})
    save_checkpoint(workdir.checkpoints / step_directory(0), model_tensors(Transformer(config.model)), step=0)
    return workdir.path


def export_engines(workdir: pathlib.Path, folder: pathlib.Path, args: argparse.Namespace) -> dict[str, pathlib.Path]:
    """MODEL_BASE of each engine that can have the model."""
    os.environ.update(ENVIRONMENT)
    from tf_transformer.export import export_ctranslate2, export_saved_model

    models = {}
    for engine in args.engines:
        shortlist = args.shortlist if engine in OURS else None
        options = {"workdir": str(workdir.resolve()), "beam": args.beam, "shortlist": shortlist}
        base = models[engine] = kept_folder(folder, engine, **options)
        if (base / "1").exists():
            continue
        try:
            if engine in OURS:
                export_saved_model(workdir, base, shortlist=shortlist, beam_size=args.beam, **OURS[engine])
            else:
                base.mkdir(exist_ok=True)
                export_ctranslate2(workdir, base / "1", quantization=engine.rpartition("_")[2])
        except (ImportError, ValueError) as error:
            print(f"{engine}: left out ({error})", file=sys.stderr)
            del models[engine]
    return models


def sentences(folder: pathlib.Path, workdir: pathlib.Path, args: argparse.Namespace) -> list[str]:
    """Sentences to send; synthetic ones have about the same number of tokens, because CTranslate2 forces the length
    of a whole batch."""
    if args.input:
        return pathlib.Path(args.input).read_text("utf-8").splitlines()
    from tf_transformer.text import load_tokenizers

    (folder / "text").mkdir()
    source, _ = write_parallel_text(folder / "text", pairs=5000, words=args.tokens)
    lines = source.read_text(encoding="utf-8").splitlines()
    lengths = [len(ids) for ids in load_tokenizers(workdir).source.encode_batch(lines)]
    return [line for line, length in zip(lines, lengths) if abs(length - args.tokens) <= 1]


def measure(models: dict[str, pathlib.Path], texts: list[str], args: argparse.Namespace) -> dict:
    """Latencies of all engines and numbers of clients, in alternation; medians over the rounds."""
    rounds: dict[tuple[str, int], list[dict]] = {}
    for number in range(args.rounds):
        for engine, base in models.items():
            with serving(engine, base, args) as url:
                for clients in args.clients:
                    found = asyncio.run(load(url, texts, clients, args.seconds, 1_000_000))
                    rounds.setdefault((engine, clients), []).append(found)
                    told = f"p50 {found['p50_ms']} ms, p99 {found['p99_ms']} ms, {found['requests_per_second']}/s"
                    print(f"round {number + 1}, {engine}, {clients} clients: {told}", file=sys.stderr, flush=True)
    figures: dict[str, Any] = {"cores": os.cpu_count(), "rounds": args.rounds, "beam": args.beam, "runs": []}
    for (engine, clients), found in rounds.items():
        names = ("requests_per_second", "p50_ms", "p95_ms", "p99_ms")
        medians = {name: statistics.median(each[name] for each in found) for name in names}
        failures = sum(each["failures"] for each in found)
        figures["runs"].append({"engine": engine, "clients": clients, **medians, "failures": failures})
    return figures | ratios(rounds, args.clients)


def ratios(rounds: dict[tuple[str, int], list[dict]], clients: list[int]) -> dict[str, float]:
    """Per peer: our speed by theirs, medians over the rounds; alone by time per request, together by requests."""
    found, engines = {}, {engine for engine, _ in rounds}
    for own, peer, count in itertools.product(engines & set(OURS), engines - set(OURS), clients):
        label = f"{own.removeprefix('ours').removeprefix('_')}_ratio_{peer}".removeprefix("_")
        pairs = zip(rounds[own, count], rounds[peer, count])
        if count == 1:
            found[label] = statistics.median(theirs["p50_ms"] / ours["p50_ms"] for ours, theirs in pairs)
        else:
            rate = "requests_per_second"
            found[f"{label}_at_{count}_clients"] = statistics.median(
                ours[rate] / theirs[rate] for ours, theirs in pairs
            )
    return {name: round(value, 3) for name, value in sorted(found.items())}


@contextlib.contextmanager
def serving(engine: str, base: pathlib.Path, args: argparse.Namespace) -> Iterator[str]:
    """The server of an engine in a process of its own, while a block runs; gives the address of the model."""
    command = [sys.executable, "-m", "benchmarks.latency", "--child", engine, "--model", str(base)]
    command += ["--beam", str(args.beam), *(["--workdir", args.workdir] if args.workdir else [])]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stderr is not None
    try:
        found, seen = None, []
        while not found:
            seen.append(process.stderr.readline())
            if not seen[-1]:
                raise SystemExit(f"the server of {engine} ended with {process.wait()}:\n{''.join(seen[-20:])}")
            found = re.search(r"listening at (http://\S+)", seen[-1])
        yield found[1]
    finally:
        process.terminate()
        process.communicate()


def serve_engine(args: argparse.Namespace) -> None:
    """Serve one engine on a free port until the process is terminated."""
    import logging

    from tf_transformer.export.serving import ModelServer, ServerOptions, serve

    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    options = ServerOptions(port=0)
    if args.child in OURS:
        asyncio.run(serve(args.model, options=options))
        return

    class CTranslate2Server(ModelServer):
        """Our server with CTranslate2 in the place of a SavedModel."""

        def _loader_of(self, source: Any) -> Any:
            return lambda directory, version: CTranslate2Model(directory, version, source.name, args)

    async def run() -> None:
        await CTranslate2Server(args.model, options=options).start()
        await asyncio.Event().wait()

    asyncio.run(run())


class CTranslate2Model:
    """A model of CTranslate2 with the attributes of a served SavedModel, and one signature."""

    def __init__(self, directory: pathlib.Path, version: int, name: str, args: argparse.Namespace):
        import ctranslate2
        import tensorflow as tf

        from tf_transformer.text import load_tokenizers

        self.directory, self.version = directory, version
        self.card: dict = {}
        self.signature_defs: dict = {}
        self._tokenizers = load_tokenizers(directory)
        # The faster form of each: float32 is slower with two calls at a time, int8 is not.
        calls = 2 if args.child == "ctranslate2_int8" else 1
        threads = os.cpu_count() or 1
        self._translator = ctranslate2.Translator(str(directory), inter_threads=calls, intra_threads=threads)
        self._beam, self._forced = args.beam, args.workdir is None
        self.name, self.model_name = "serving_default", name
        self.inputs = {"text": tf.TensorSpec([None], tf.string)}
        self.outputs = {"translation": tf.TensorSpec([None], tf.string)}
        self.mergeable, self.padded = True, False
        self.signatures = {self.name: self}
        self({"text": [b"warm"]})

    def signature(self, name: str) -> "CTranslate2Model":
        return self

    def check_languages(self, tensors: dict) -> None:
        """Requests choose no language."""

    def __call__(self, tensors: dict) -> dict:
        import numpy as np

        tokenizer = self._tokenizers.source
        rows = [tokenizer.pieces(tokenizer.encode(text)) for text in tensors["text"]]
        longest = max(map(len, rows)) + EXTRA_LENGTH
        limits = {"max_decoding_length": longest, "min_decoding_length": longest if self._forced else 1}
        found = self._translator.translate_batch(rows, beam_size=self._beam, **limits)
        texts = [self._text(each.hypotheses[0]) for each in found]
        return {"translation": np.array([text.encode() for text in texts], object)}

    def _text(self, pieces: list[str]) -> str:
        return "".join(pieces).replace("▁", " ").strip()


def table(figures: dict) -> str:
    columns = ("engine", "clients", "requests_per_second", "p50_ms", "p95_ms", "p99_ms", "failures")
    rows = [columns, *([str(run[column]) for column in columns] for run in figures["runs"])]
    lines = ["  ".join(f"{cell:>19}" for cell in row) for row in rows]
    return "\n".join([*lines, *(f"{name}: {value}" for name, value in figures.items() if "ratio_" in name)])


if __name__ == "__main__":
    main()
