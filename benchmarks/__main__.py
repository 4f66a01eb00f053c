"""Run benchmarks one after another: `python -m benchmarks [NAME …] [--json]`; without a name all that need no files."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# This script, and the one that runs others of them.
REPEATED = ("__main__", "targets")


def names() -> list[str]:
    """The scripts of this folder that can be run."""
    return sorted(path.stem for path in HERE.glob("*.py") if '__name__ == "__main__"' in path.read_text("utf-8"))


def _needs_files(name: str) -> bool:
    return "required=True" in (HERE / f"{name}.py").read_text("utf-8")


def main(arguments: list[str]) -> int:
    every = [name for name in names() if name not in REPEATED and not _needs_files(name)]
    chosen = [word for word in arguments if not word.startswith("-")] or every
    options = [word for word in arguments if word.startswith("-")]
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
