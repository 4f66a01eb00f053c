"""Instruction sets of the CPU."""

import functools
import pathlib

_FACTS = pathlib.Path("/proc/cpuinfo")


@functools.cache
def cpu_flags() -> frozenset[str]:
    """The instruction sets of this CPU by the names of Linux, such as "avx512f"; empty on other systems."""
    try:
        lines = _FACTS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())
