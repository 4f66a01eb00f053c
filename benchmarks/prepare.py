"""Speed and memory of `prepare`, from raw pairs to a prepared directory, vocabulary included.

    python -m benchmarks.prepare --pairs 1700000 [--engine local beam]

Times the real command on generated text, in a process of its own; with two engines, on the same text in one run. Memory
is the peak of all its processes together, shared pages counted once.
"""

import argparse
import contextlib
import filecmp
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from benchmarks.synthetic_text import write_parallel_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_700_000)
    parser.add_argument("--words", type=float, default=25.0, help="words per side, on average")
    parser.add_argument("--vocab-size", type=int, default=37_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument(
        "--engine", nargs="+", choices=("local", "beam"), default=["local"], help="run one after another"
    )
    parser.add_argument("--directory", help="where the text and the result go (default: a temporary directory)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.directory) as directory:
        folder = pathlib.Path(directory)
        files = write_parallel_text(folder, args.pairs, args.words)
        runs = {engine: measure(folder, files, engine, args) for engine in args.engine}
        figures = {"pairs": args.pairs, "words": args.words, "workers": args.workers, **runs[args.engine[0]]}
        if len(runs) > 1:
            figures |= {
                "beam": runs["beam"],
                "ratio_local": round(runs["local"]["seconds"] / runs["beam"]["seconds"], 2),
            }
            figures["equal_files"] = equal_files(folder / "local", folder / "beam")
    print(json.dumps(figures) if args.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


def measure(folder: pathlib.Path, files: tuple, engine: str, args: argparse.Namespace) -> dict:
    command = [
        sys.executable, "-m", "tf_transformer.pipelines.cli", "prepare", "--data", "files", "--json",
        "--train-source", str(files[0]), "--train-target", str(files[1]), "--source-language", "en",
        "--target-language", "de", "--vocab-size", str(args.vocab_size), "--workers", str(args.workers),
        "--output", str(folder / engine), "--engine", engine,
    ]  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    with (folder / "stdout").open("wb") as stdout:
        process = subprocess.Popen(command, stdout=stdout)
        peak = watch_memory(process)
    seconds = time.perf_counter() - begun
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"prepare failed with exit code {process.returncode}")
    train = json.loads((folder / "stdout").read_bytes())["splits"]["train"]
    return {
        "pairs_kept": train["pairs"],
        "tokens": train["source_tokens"] + train["target_tokens"],
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime - before.ru_utime - before.ru_stime, 1),
        "pairs_per_second": round(args.pairs / seconds),
        "peak_memory_mib": round(peak / 2**20),
    }


def equal_files(first: pathlib.Path, second: pathlib.Path) -> bool:
    """Whether two prepared directories have the same files, apart from the command and date in `dataset.json`."""
    names = [sorted(path.name for path in folder.iterdir()) for folder in (first, second)]
    compared = [name for name in names[0] if name != "dataset.json"]
    return names[0] == names[1] and filecmp.cmpfiles(first, second, compared, shallow=False)[0] == compared


def watch_memory(process: subprocess.Popen, interval: float = 0.5) -> int:
    """The peak of the memory of a process and its children, in bytes, until it ends."""
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(_proportional_bytes(pid) for pid in _family(process.pid)))
        time.sleep(interval)
    return peak


def _family(pid: int) -> list[int]:
    """A process and its descendants, which any of its threads may have started."""
    children: list[str] = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += path.read_text().split()
    return [pid, *(member for child in children for member in _family(int(child)))]


def _proportional_bytes(pid: int) -> int:
    """The process's memory, with pages that others share counted in part (Linux)."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main()
