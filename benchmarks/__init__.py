"""Benchmarks: each script prints its figures, with `--json` as one object; peers are measured in the same run."""
