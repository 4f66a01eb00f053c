"""Downloads of TensorFlow Datasets: tried again with pauses, and explained when they fail for good.

Private API: the project's uses of the internals of tensorflow-datasets are all in this module.
tests/unit/test_private_apis.py fails when an upgrade changes them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import time
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tf_transformer.data.corpora._corpus import CorpusError

if TYPE_CHECKING:
    from tensorflow_datasets.core import DatasetBuilder

_log = logging.getLogger(__name__)
_MAX_PAUSE = 60.0
_HTTP_CODE = re.compile(r"HTTP (?:code:|Error) (\d+)")
_WRONG_FILE = re.compile(r"downloaded to (.+?), has wrong checksum")
_HTML = re.compile(rb"\s*<(!doctype|html|head|body|\?xml)", re.IGNORECASE)


@dataclass(frozen=True)
class NeededFile:
    """A file that a builder reads: where it comes from, and under which name TensorFlow Datasets looks for it."""

    url: str
    filename: str
    bytes: int | None = None
    sha256: str | None = None
    by_hand: bool = False

    def describe(self) -> str:
        size = f", {self.bytes / 1e6:,.1f} MB" if self.bytes else ""
        checksum = f", sha256 {self.sha256}" if self.sha256 else ""
        how = " (can only be fetched by hand)" if self.by_hand else ""
        return f"{self.filename} from {self.url}{size}{checksum}{how}"


def prepare_with_retries(
    builder: DatasetBuilder, *, manual_dir: str | Path | None = None, attempts: int = 5, first_pause: float = 2.0
) -> None:
    """Download and prepare the data of a builder, if that has not been done.

    Files that have been downloaded are kept between attempts and between runs.

    Raises:
        CorpusError: after the last attempt, or immediately if a retry cannot help.
    """
    import tensorflow_datasets as tfds

    if attempts < 1:
        raise CorpusError(f"Expected at least one attempt to download. Received: attempts={attempts}.")
    manual = Path(manual_dir) if manual_dir else Path(builder.data_dir_root) / "downloads" / "manual"
    _register_files(builder, manual)
    config = tfds.download.DownloadConfig(manual_dir=os.fspath(manual), try_download_gcs=False)
    for attempt in range(1, attempts + 1):
        try:
            with _one_try_a_file(), _room_to_extract(len(needed_files(builder))):
                builder.download_and_prepare(download_config=config)
            return
        except _failures() as error:
            reason = _explain(error)
            if attempt == attempts or not _worth_another_try(error):
                raise CorpusError(_advice(builder, manual, reason, attempt)) from error
            pause = min(first_pause * 2 ** (attempt - 1), _MAX_PAUSE)
            _log.warning("Attempt %d of %d failed: %s. Next in %.0f s.", attempt, attempts, reason, pause)
            time.sleep(pause)


def needed_files(builder: DatasetBuilder) -> list[NeededFile]:
    """Every file the builder reads; for builders other than WMT's, every file registered for any of its pairs."""
    from tensorflow_datasets.core.download import checksums

    registered = {**checksums.get_all_url_infos(), **(builder.url_infos or {})}
    files = {}
    for url, by_hand in _sources(builder):
        if by_hand:
            files.update({name: NeededFile(url, name, by_hand=True) for name in by_hand})
        elif url in registered:
            info = registered[url]
            files[url] = NeededFile(url, info.filename or _basename(url), int(info.size), info.checksum)
        else:
            files[url] = NeededFile(url, _basename(url))
    return list(files.values())


def _sources(builder: DatasetBuilder) -> Iterator[tuple[str, list[str]]]:
    """URLs, each with the names of its files that have to be downloaded manually."""
    from tensorflow_datasets.translate import wmt

    if not isinstance(builder, wmt.WmtTranslate):
        yield from ((url, []) for url in builder.url_infos or {})
        return
    source, _ = builder.builder_config.language_pair
    for name in dict.fromkeys(name for names in builder.subsets.values() for name in names):
        if name == "czeng_17":  # reads CzEng 1.6 and a list of what to leave out of it
            yield from ((url, []) for url in wmt._CZENG17_FILTER.get_url(source))
        subset = wmt.DATASET_MAP[name]
        for url in subset.get_url(source):
            yield url, subset.get_manual_dl_files(source)


def _register_files(builder: DatasetBuilder, manual: Path) -> None:
    """Register all files by name, so that the library looks for them in `manual`."""
    from tensorflow_datasets.core.download import checksums

    every = checksums.get_all_url_infos()
    for infos in (every, builder.url_infos or {}):
        for url, _ in _sources(builder):
            path = manual / _basename(url)
            if url in infos and not infos[url].filename:
                infos[url].filename = path.name
            elif url not in every and path.is_file():
                infos[url] = checksums.compute_url_info(path)


def _basename(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2].rpartition("=")[2]


@contextlib.contextmanager
def _one_try_a_file() -> Iterator[None]:
    """Disable the retries of the library: its ten attempts per file take minutes if a host does not respond."""
    from tensorflow_datasets.core.download import downloader

    usual = downloader.MAX_RETRIES
    downloader.MAX_RETRIES = 0
    try:
        yield
    finally:
        downloader.MAX_RETRIES = usual


@contextlib.contextmanager
def _room_to_extract(archives: int) -> Iterator[None]:
    """Give the library's extractor more threads than there are archives.

    An extraction keeps one thread of its pool waiting for others of the same pool to write its files. The usual four
    per core are all blocked forever by the ten archives of CzEng on a machine of two cores.
    """
    from tensorflow_datasets.core.download import extractor

    shared = extractor.get_extractor()
    usual = shared._executor
    with ThreadPoolExecutor(archives + 4) as shared._executor:
        try:
            yield
        finally:
            shared._executor = usual


def _failures() -> tuple[type[BaseException], ...]:
    import requests
    from tensorflow_datasets.core.download import download_manager, extractor, util

    return (
        requests.exceptions.RequestException,
        urllib.error.URLError,  # of ftp hosts
        util.DownloadError,
        download_manager.NonMatchingChecksumError,
        extractor.ExtractError,
        AssertionError,  # what the WMT builders raise for files that are missing or do not match
    )


def _worth_another_try(error: BaseException) -> bool:
    """Return whether a retry may help: a host is busy or offline, or sent a page instead of an archive."""
    import requests
    from tensorflow_datasets.core.download import download_manager

    if isinstance(error, download_manager.NonMatchingChecksumError):
        return _temporary_file(error) is not None
    if code := _HTTP_CODE.search(str(error)):
        return code[1] == "429" or code[1].startswith("5")
    return isinstance(error, requests.exceptions.RequestException | urllib.error.URLError)


def _temporary_file(error: BaseException) -> Path | None:
    """The file that was just downloaded and is not the right one; None for one that somebody put there."""
    match = _WRONG_FILE.search(str(error))
    path = Path(match[1]) if match else None
    return path if path and ".tmp." in path.parent.name else None


def _explain(error: BaseException) -> str:
    """Describe an error in one line; a wrong file that was just downloaded is examined and removed."""
    match = _WRONG_FILE.search(str(error))
    if not match:
        return " ".join(str(error).split())[:500] or type(error).__name__
    path = Path(match[1])
    what = _what_is_in(path)
    if temporary := _temporary_file(error):
        shutil.rmtree(temporary.parent, ignore_errors=True)
        return f"expected the archive {path.name}, the server sent {what}"
    return f"expected the archive {path.name}, found {what} in {path}; replace it"


def _what_is_in(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(512)
    return "an HTML page" if _HTML.match(start) else f"another file ({path.stat().st_size:,} bytes)"


def _advice(builder: DatasetBuilder, manual: Path, reason: str, attempts: int) -> str:
    """Message with the files to download manually and where to put them."""
    missing = [file for file in needed_files(builder) if not _is_there(builder, manual, file)]
    tries = f" after {attempts} attempts" if attempts > 1 else ""
    if not missing:
        return f"Could not prepare {builder.info.full_name}{tries}: {reason}."
    lines = "\n".join(f"  {file.describe()}" for file in missing)
    return (
        f"Could not get the files of {builder.info.full_name}{tries}: {reason}.\n"
        f"Fetch these in another way and put them, under exactly these names, into {manual}:\n{lines}\n"
        "Then give the same command again; nothing that is already there is downloaded again."
    )


def _is_there(builder: DatasetBuilder, manual: Path, file: NeededFile) -> bool:
    """Return whether a file was added manually, or downloaded by an earlier attempt."""
    from tensorflow_datasets.core.download import resource

    if (manual / file.filename).exists():
        return True
    if not file.sha256:
        return False
    downloads = Path(builder.data_dir_root) / "downloads"
    name = resource.get_dl_fname(file.url, file.sha256)
    return any((folder / name).exists() for folder in (downloads / builder.name, downloads))
