"""Names of models elsewhere, `hf:OWNER/NAME` and `https://….zip`, and the local files that they become."""

import re

from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing.downloads._archive_file import download_archive
from tf_transformer.importing.downloads._download import Download, check_digits
from tf_transformer.importing.downloads._hub import HUB, download_repository

_REMOTE = re.compile(r"(?:hf:|[a-z]+://)", re.IGNORECASE)


def is_remote(path: object) -> bool:
    """Return whether `path` names a model elsewhere, not a file or folder."""
    return isinstance(path, str) and _REMOTE.match(path) is not None


def download_model(name: str, sha256: str | None = None) -> Download:
    """Download the model `hf:OWNER/NAME`, `hf:OWNER/NAME@REVISION` or `https://….zip`, unless it is in the cache.

    Args:
        sha256: expected checksum of an archive.
    """
    if sha256 is not None:
        check_digits(sha256)
    if not name.startswith(HUB):
        return download_archive(name, sha256)
    if sha256 is not None:
        raise ImportedModelError(
            f"Expected an archive with --sha256. Received: {name}, a repository. Pin its files by a commit: "
            "hf:OWNER/NAME@COMMIT."
        )
    return download_repository(name)
