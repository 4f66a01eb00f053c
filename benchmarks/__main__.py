"""Run benchmarks one after another: `python -m benchmarks [NAME …] [OPTION …]`; by default all that need no files."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RUNS_OTHERS = ("targets",)


def names() -> list[str]:
    """The scripts of this folder that can be run."""
    scripts = [path for path in HERE.glob("[a-z]*.py") if '__name__ == "__main__"' in path.read_text("utf-8")]
    return sorted(path.stem for path in scripts)


def _needs_files(name: str) -> bool:
    return "required=True" in (HERE / f"{name}.py").read_text("utf-8")


def main(arguments: list[str]) -> int:
    every = [name for name in names() if name not in RUNS_OTHERS and not _needs_files(name)]
    first = next((place for place, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    chosen, options = arguments[:first] or every, arguments[first:]
    unknown = [name for name in chosen if name not in names()]
    if unknown:
        print(f"There is no benchmark {', '.join(unknown)}. Benchmarks: {', '.join(names())}.", file=sys.stderr)
        return 2
    failed = []
    for name in chosen:
        print(f"== {name}", file=sys.stderr, flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options], cwd=HERE.parent).returncode:
            failed.append(name)
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
