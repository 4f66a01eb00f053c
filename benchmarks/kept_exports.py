"""Folders of exports that several runs of a benchmark share: one per set of options and state of the library's code."""

import functools
import hashlib
import json
import pathlib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]


def kept_folder(models: str | pathlib.Path, name: str, **options: Any) -> pathlib.Path:
    """The folder in `models` of an export with these options, written by the code as it is now.

    A folder that other options or older code wrote has another name, so it is not measured by mistake.
    """
    content = json.dumps(options, sort_keys=True) + _code()
    return pathlib.Path(models) / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


@functools.cache
def _code() -> str:
    """Checksum of the modules of the library and of `export`."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in ("tf_transformer", "export") for path in (ROOT / folder).rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
