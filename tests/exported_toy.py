"""A toy model exported by the real command, once per test process."""

import atexit
import dataclasses
import functools
import pathlib
import shutil
import tempfile

from toy_workdir import TOY, toy_workdir

from tf_transformer.pipelines import cli
from tf_transformer.workdir._workdir import Workdir

SMALL = dataclasses.replace(TOY, num_layers=1, num_decoder_layers=1)
SEARCH = {"max_source_length": 13, "max_extra_length": 5}
BEAMS, N_BEST = 3, 2


@functools.cache
def exported_toy() -> tuple[Workdir, pathlib.Path]:
    """The work directory, and the version that was exported from it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="exported_toy-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    workdir = toy_workdir(folder / "run", SMALL, **SEARCH)
    flags = ["--beam-size", str(BEAMS), "--nbest", str(N_BEST)]
    if cli.main(["export", "--workdir", str(workdir.path), "--output", str(folder / "toy"), *flags]):
        raise RuntimeError("The toy was not exported.")
    return workdir, folder / "toy" / "1"
