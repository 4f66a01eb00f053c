"""The version of the package, and those of others, without importing any of them."""

import importlib.metadata
import platform

__version__ = "0.2.0"


def versions_of(*packages: str) -> dict[str, str]:
    """Our version, Python's, and those of the packages that are installed."""
    versions = {"tf_transformer": __version__, "python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
