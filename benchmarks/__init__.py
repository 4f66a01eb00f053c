"""What is measured: each script prints its figures, as one JSON object with `--json`; peers in the same run."""
