"""Decoding speed of a base-size SavedModel with random weights, beside the peers, in one run.

    python -m benchmarks.peers.setup ENVS
    python -m benchmarks.decoding --peer-envs ENVS --json

Without `--peer-envs` only our own figures are measured. `ratio_<peer>` is our throughput divided by the peer's: higher
is better. Rounds of ours and theirs alternate, a ratio is taken within a round, and the median of the rounds is
reported, because figures of a shared machine vary more than ratios. Output lengths are forced.

Ours is measured as one call on all threads (part `batch`), side by side as `translate` and `evaluate` work, the rows
divided among the cores, each part on one thread (part `parallel`), and with one sentence alone (part `single`).
`--variants` are exports: float32, packed (the same, packed once), int8, and both kinds with a shortlist of random
candidates per source token (`--shortlist N`). Figures of all but float32 begin with their names: `ratio_*`,
`packed_ratio_*`, `int8_side_by_side_ratio_*`, `single_beam4_int8_ratio_*`. `--here` takes CTranslate2 from this
environment instead of --peer-envs. `--layout avx2` exports weights in the layout of CPUs without AVX-512; with
ONEDNN_MAX_CPU_ISA=AVX2 CT2_FORCE_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 in the environment all engines use no other
instructions.
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.kept_exports import kept_folder
from benchmarks.peers import running

# What ours and the peers are given alike, and what it is unless the command says otherwise.
WORK = {"batch": 32, "source": 25, "target": 28, "beam": 4, "vocab": 37000, "repeat": 3}
SIZES = {"layers": 6, "width": 512, "heads": 8, "inner": 2048}
# Weights of `export`, and whether there is a shortlist.
VARIANTS = {
    "float32": ("float32", False),
    "packed": ("packed", False),
    "int8": ("int8", False),
    "shortlist": ("float32", True),
    "int8_shortlist": ("int8", True),
}
PARTS = ("batch", "parallel", "single")
# Whether kernels are stored transposed; None: as this CPU wants them.
LAYOUTS = {"auto": None, "avx512": False, "avx2": True}
ENVIRONMENT = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}


def main() -> None:
    args = _parse()
    if args.child:
        print(json.dumps(measure(args.child, args)))
        return
    with tempfile.TemporaryDirectory() as folder:
        figures: dict[str, float] = {}
        exported = functools.partial(_exported, folder=args.models or folder, args=args)
        if "batch" in args.parts:
            figures |= compare({name: (exported(name, args.beam), 1) for name in args.variants}, args)
        if "parallel" in args.parts:
            ways = {f"{name}_side_by_side": (exported(name, args.beam), _cores()) for name in args.variants}
            figures |= compare(ways, args, "_two_batches")
        if "single" in args.parts:
            figures |= single_sentences(exported, args)
        if args.lengths:
            figures |= lengths(exported("float32", args.beam), args)
    print(json.dumps(figures) if args.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    running.add_arguments(parser)
    for name, value in (WORK | {"rounds": 5}).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--preset", default="base", help="of our model; the peers' is always base (default base)")
    parser.add_argument("--lengths", type=int, nargs="*", default=[28, 112, 448], help="output lengths, ours alone")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["float32"], help="our exports")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure (default: all)")
    parser.add_argument("--shortlist", type=int, default=100, metavar="N", help="candidates per source token")
    parser.add_argument("--layout", choices=LAYOUTS, default="auto", help="of the weights (default: of this CPU)")
    parser.add_argument("--models", help="folder to keep the exports in, for several runs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    return parser.parse_args()


def export(
    directory: str,
    beam: int,
    vocab: int,
    preset: str = "base",
    shortlist: int | None = None,
    weights: str = "float32",
    layout: str = "auto",
) -> str:
    """A SavedModel from ids (N, S) and output lengths (N,) to ids (N, K, L), by the translator's own search.

    Args:
        shortlist: random candidates per source token; None: the whole vocabulary.
        weights: "float32", "packed" (float32, packed once for small steps) or "int8".
        layout: of the weights, a key of `LAYOUTS`.

    Returns:
        Its directory.
    """
    os.environ.update(ENVIRONMENT)
    import tensorflow as tf

    from tf_transformer.decoding import SearchOptions, search_ids, separate_small_steps
    from tf_transformer.export import pack_model, quantize_model
    from tf_transformer.layers import inference_layout
    from tf_transformer.model import Transformer
    from tf_transformer.presets import get_preset

    module = tf.Module()
    config = dataclasses.replace(get_preset(preset).model, vocab_size=vocab)
    with inference_layout(LAYOUTS[layout], rows=shortlist is not None):
        model = Transformer(config)
    if weights == "packed":
        pack_model(model)
    module.matrices = quantize_model(model) if weights == "int8" else {}
    module.weights = [each.value for each in model.weights if each.path not in module.matrices]
    module.shortlist = None if shortlist is None else _random_shortlist(vocab, shortlist)
    options = SearchOptions(eos_id=3, beam_size=beam, nbest=1, min_length=100_000, forbidden_ids=(0, 2))

    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)], autograph=False
    )
    def decode(source, max_lengths):
        lengths = tf.fill(tf.shape(max_lengths), tf.shape(source)[1])
        rows = {"source": source, "lengths": lengths, "max_lengths": max_lengths}
        return {"ids": search_ids(model, rows, options, shortlist=module.shortlist).ids}

    with separate_small_steps() if weights == "packed" else contextlib.nullcontext():
        signature = decode.get_concrete_function()
    tf.saved_model.save(module, directory, signatures=signature)
    return directory


def _random_shortlist(vocab: int, candidates: int) -> Any:
    """A shortlist whose candidates have a natural overlap: few of them are frequent, as in a lexical table."""
    import numpy as np

    from tf_transformer.decoding import CandidateTable, Shortlist

    random = np.random.default_rng(0)
    table = np.minimum(4 + (random.pareto(0.6, (vocab, candidates)) * 30).astype(np.int64), vocab - 1)
    frequent = np.concatenate([[3], np.arange(4, 104)]).astype(np.int32)
    return CandidateTable(Shortlist(table.astype(np.int32), frequent, vocab, {}))


def measure(directory: str, args: argparse.Namespace) -> dict:
    """Tokens per second of the SavedModel in this process, median and best, after one run that does not count."""
    import numpy as np
    import tensorflow as tf

    if args.threads > 1:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    pool = ThreadPoolExecutor(args.threads)
    decode = tf.saved_model.load(directory).signatures["serving_default"]
    random = np.random.RandomState(0)
    source = tf.constant(random.randint(4, args.vocab, (args.batch, args.source)), tf.int32)
    max_lengths = tf.fill([args.batch], args.target)

    def decode_part(part):
        return decode(source=source[part :: args.threads], max_lengths=max_lengths[part :: args.threads])["ids"].numpy()

    times = []
    for _ in range(args.repeat + 1):
        start = time.perf_counter()
        ids = np.concatenate(list(pool.map(decode_part, range(args.threads))))
        times.append(time.perf_counter() - start)
        if ids.shape != (args.batch, args.beam, args.target):
            raise SystemExit(f"Expected {args.target} tokens for each of {args.batch} rows; got {ids.shape}.")
    tokens = args.batch * args.target
    return {"median": tokens / statistics.median(times[1:]), "best": tokens / min(times[1:])}


def ours(directory: str, args: argparse.Namespace, **changes) -> float:
    """Median tokens per second of a fresh process with the SavedModel."""
    options = {name: getattr(args, name) for name in (*WORK, "threads")} | changes
    command = [sys.executable, "-m", "benchmarks.decoding", "--child", directory, *_flags(options)]
    return json.loads(_output(command)[-1])["median"]


def _exported(name: str, beam: int, folder: str, args: argparse.Namespace) -> str:
    """The SavedModel of a variant, written unless it exists."""
    weights, shortlist = VARIANTS[name]
    candidates = args.shortlist if shortlist else None
    options = {"vocab": args.vocab, "preset": args.preset, "shortlist": candidates, "layout": args.layout}
    directory = kept_folder(folder, f"{name}_{beam}", **options)
    return str(directory) if directory.exists() else export(str(directory), beam, weights=weights, **options)


def compare(ways: dict[str, tuple[str, int]], args: argparse.Namespace, suffix: str = "") -> dict[str, float]:
    """Ours and the peers' tokens per second, and the ratios.

    Args:
        ways: SavedModel and number of threads by name.
        suffix: "_two_batches" for CTranslate2 with as many translations in parallel.
    """
    flags = {name: getattr(args, name) for name in WORK} | SIZES | ({"inter-threads": 2} if suffix else {})
    speeds: dict[str, list[float]] = {}
    for number in range(args.rounds):
        found = {_named("ours", name): ours(model, args, threads=threads) for name, (model, threads) in ways.items()}
        only = ("ctranslate2",) if suffix else None
        measured = running.measure_peers("decode", args.peer_envs, flags, only, args.here)
        _collect(speeds, found | {f"{name}{suffix}": speed for name, speed in measured.items()}, number)
    figures = _medians(speeds)
    for way in ways:
        figures |= _ratios(speeds, _named("ours", way), way.removeprefix("float32").removeprefix("_"))
    return figures


def _named(prefix: str, name: str) -> str:
    """`ours` and the name of a variant; float32 is not mentioned."""
    return f"{prefix}_{name}".replace("_float32", "", 1)


def _collect(speeds: dict[str, list[float]], found: dict[str, float], number: int) -> None:
    for name, speed in found.items():
        speeds.setdefault(name, []).append(speed)
    told = ", ".join(f"{name} {speed:.1f}" for name, speed in found.items())
    print(f"round {number + 1}, tokens per second: {told}", file=sys.stderr, flush=True)


def _medians(speeds: dict[str, list[float]], label: str = "") -> dict[str, float]:
    return {f"{label}{name}_tokens_per_second": round(statistics.median(values), 1) for name, values in speeds.items()}


def _ratios(speeds: dict[str, list[float]], own: str, label: str) -> dict[str, float]:
    peers = [name for name in speeds if not name.startswith("ours")]
    return {f"{label}{'_' * bool(label)}ratio_{peer}": _ratio(speeds[own], speeds[peer]) for peer in peers}


def _cores() -> int:
    """Those that this process may use, as `translate` counts them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return round(statistics.median(one / other for one, other in zip(ours, theirs)), 3)


def single_sentences(exported: Callable[[str, int], str], args: argparse.Namespace) -> dict[str, float]:
    """One sentence alone, by beam size: ours and CTranslate2's tokens per second, and the ratios."""
    figures: dict[str, float] = {}
    for beam in dict.fromkeys((args.beam, 1)):
        models = {name: exported(name, beam) for name in args.variants}
        speeds: dict[str, list[float]] = {}
        flags = {name: getattr(args, name) for name in WORK} | SIZES | {"batch": 1, "beam": beam}
        for number in range(args.rounds):
            found = {_named("ours", name): ours(each, args, batch=1, beam=beam) for name, each in models.items()}
            found |= running.measure_peers("decode", args.peer_envs, flags, ("ctranslate2",), args.here)
            _collect(speeds, found, number)
        label = f"single_beam{beam}"
        figures |= _medians(speeds, f"{label}_")
        for name in models:
            figures |= _ratios(speeds, _named("ours", name), _named(label, name))
    return figures


def lengths(directory: str, args: argparse.Namespace) -> dict:
    """Our milliseconds per step by output length."""
    figures = {}
    for length in args.lengths:
        speed = ours(directory, args, target=length, repeat=1 if length > 100 else args.repeat)
        figures[f"milliseconds_per_step_at_{length}"] = round(1000 * args.batch / speed, 2)
    return figures


def _flags(options: dict) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def _output(command: list[str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout.splitlines()


if __name__ == "__main__":
    main()
