"""The tutorial "The paper in one sitting", run as a script."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "the_paper_in_one_sitting.py"


@pytest.mark.slow
def test_the_tutorial_runs_and_writes_its_plots(tmp_path):
    """The script checks the formulas itself, and that its model has learned to sort."""
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    done = subprocess.run([sys.executable, str(SCRIPT)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "sorted correctly" in done.stdout
    written = {path.stem for path in (tmp_path / "plots").glob("*.png")}
    shown = set(re.findall(r"pictures/tutorial-([\w-]+)\.png", SCRIPT.read_text(encoding="utf-8")))
    assert written == shown
