"""Mutation fuzzing of the readers of external files: `make fuzz`, or `python -m fuzz --cases 20000` in tests/.

Each reader gets files that were changed at random and must return or raise ImportedModelError, with a short message
that names the file, within a memory budget proportional to the file. The cases run in processes of their own, so that
a crash of a native library is reported like any other failure. A case is repeated with `--reader NAME --first NUMBER`.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback

CASES_PER_PROCESS = 10_000
MAX_SECONDS = 20
MAX_CRASHES = 20
# Beyond what each byte of a file may cost: the process itself grows a little.
BASE_BYTES, BYTES_PER_BYTE = 64 * 2**20, 64


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000, help="per reader (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--reader", action="append", help="only this one; may be repeated")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return work(args.worker[0], args.first, args.cases, pathlib.Path(args.worker[1]))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from fuzz.readers import FOLDER_NAMES, NAMES

    failed = 0
    for name in args.reader or NAMES + FOLDER_NAMES:
        started = time.monotonic()
        accepted, growth, failures = fuzz(name, args.first, args.cases)
        print(
            f"{name}: {args.cases:,} cases, {accepted:,} accepted, {len(failures)} failures, at most "
            f"{growth / 2**20:.1f} MB of memory for a case, {time.monotonic() - started:.0f} s",
            flush=True,
        )
        for failure in failures[:5]:
            print(f"  case {failure['case']}: {failure['what']}", flush=True)
        failed += len(failures)
    return 1 if failed else 0


def fuzz(name: str, first: int, cases: int) -> tuple[int, int, list[dict]]:
    """The number of accepted files, the most memory by which one case made its process grow, and the failures."""
    accepted, growth, failures, end, crashes = 0, 0, [], first + cases, 0
    while first < end and crashes < MAX_CRASHES:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            report = pathlib.Path(folder) / "report"
            report.write_text("")
            command = [
                sys.executable,
                "-m",
                "fuzz",
                "--first",
                str(first),
                "--cases",
                str(min(CASES_PER_PROCESS, end - first)),
            ]
            code = subprocess.run(
                [*command, "--worker", name, str(report)], stderr=subprocess.DEVNULL, check=False
            ).returncode
            lines = [json.loads(line) for line in report.read_text().splitlines()]
        accepted += sum(line.get("accepted", 0) for line in lines)
        growth = max([growth, *(line.get("growth", 0) for line in lines)])
        failures += [line for line in lines if "what" in line]
        done = lines[-1].get("next", first) if lines else first
        if code < 0 or done == first:
            failures.append({"case": done, "what": f"the process ended with {code}"})
            done, crashes = done + 1, crashes + 1
        first = done
    return accepted, growth, failures


def work(name: str, first: int, cases: int, report: pathlib.Path) -> int:
    """Runs cases of one reader; each line of the report is a number of accepted files, or a failure."""
    from fuzz.readers import reader as reader_of

    reader = reader_of(name)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, report.open("w", buffering=1) as out:
        for number in range(first, first + cases):
            out.write(json.dumps({"next": number}) + "\n")
            data = reader.case(name, number)
            memory, started = reset_peak(), time.process_time()
            failure, accepted = None, False
            try:
                accepted = reader.accepts(data, pathlib.Path(folder))
            except Exception:
                failure = " | ".join(traceback.format_exc().strip().splitlines()[-3:])[:1000]
            growth, seconds = peak() - memory, time.process_time() - started
            if growth > BASE_BYTES + BYTES_PER_BYTE * len(data):
                failure = f"{growth:,} bytes of memory for {len(data):,} bytes"
            if seconds > MAX_SECONDS:
                failure = f"{seconds:.0f} s of processor time"
            line = {"next": number + 1, "accepted": int(accepted), "growth": growth}
            out.write(json.dumps(line | ({"case": number, "what": failure} if failure else {})) + "\n")
    return 0


def reset_peak() -> int:
    """The memory of this process, which is its peak from now on where the system can forget an earlier one."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """Bytes of memory of this process at its largest."""
    try:
        return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])
    except (OSError, TypeError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
