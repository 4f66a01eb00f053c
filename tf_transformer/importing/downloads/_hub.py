"""Repositories of the Hugging Face hub: the files of one commit that an import reads, kept in the hub's own cache.

The library `huggingface_hub` downloads, resumes and keeps them; $HF_HOME, $HF_ENDPOINT and $HF_TOKEN are its settings.
"""

import contextlib
import fnmatch
import functools
import logging
import pathlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tf_transformer._files import sha256_of_file
from tf_transformer.importing._archive import MAX_BYTES
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._settings import shorten
from tf_transformer.importing.downloads._download import Download, TemporaryError, git_blob_id, retry

if TYPE_CHECKING:
    from huggingface_hub import HfApi

HUB = "hf:"
_LONGEST_NAME = 250
_COMMIT = re.compile("[0-9a-f]{40}")
_NAME = re.compile(r"hf:([\w.-]{1,96}/[\w.-]{1,96})(?:@([\w./-]{1,200}))?", re.ASCII)
# The first that a repository has is downloaded, so that a pickle comes only where there is nothing else.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "tf_model.h5")
_SHARD = "model-*-of-*.safetensors"
_TOKENIZERS = ("*.spm", "sentencepiece*.model", "tokenizer.model", "spm.model", "source.model", "target.model")
_HUGGING_FACE: tuple[str, ...] = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "vocab.json",
    "target_vocab.json",
)
_HUGGING_FACE += ("special_tokens_map.json", "added_tokens.json", "tokenizer.json")
_CTRANSLATE2 = ("model.bin", "config.json", "*vocabulary.json", "*vocabulary.txt")
_MARIAN = ("*.npz", "*.bin", "*.yml")
_CARD = ("README.md", "LICENSE*")
# More than a page of addresses helps nobody.
_LISTED = 30

logger = logging.getLogger(__name__)


def download_repository(name: str) -> Download:
    """Download the files of `hf:OWNER/NAME[@REVISION]` that an import reads.

    The revision is resolved to a commit first, so that all files belong together; the commit is recorded.
    """
    match = _NAME.fullmatch(name)
    if match is None or ".." in name:
        raise ImportedModelError(f"Expected hf:OWNER/NAME or hf:OWNER/NAME@REVISION. Received: {name[:200]!r}.")
    repository, revision = match[1], match[2] or "main"
    api = _api()
    advice = _advice(api, repository, revision, ())
    info = retry(lambda: _ask(api, repository, revision, advice), name, advice)
    if isinstance(info, pathlib.Path):
        logger.warning("The hub cannot be reached; %s is taken from the cache, %s.", name, info)
        return Download(info, {"from": name, "revision": info.name})
    _check_info(info, name)
    described = {file.rfilename: file for file in info.siblings}
    files = required_files(described, name)
    if sum(described[file].size or 0 for file in files) > MAX_BYTES:
        raise ImportedModelError(f"{name}: expected at most {MAX_BYTES:,} bytes of files. Received: more.")
    advice = _advice(api, repository, info.sha, files)
    for file in files:
        retry(functools.partial(_fetch, api, repository, info.sha, described[file], advice), name, advice)
    folder = _folder(api, repository, info.sha, files[0])
    logger.info("%s, commit %s, is kept in %s.", name, info.sha, folder)
    facts = {"from": name, "revision": info.sha}
    return Download(folder, facts, _licence(info))


def required_files(names: Iterable[str], what: str) -> list[str]:
    """The files of a repository that an import reads, smallest kind first; the weights come last.

    Args:
        names: all files of the repository.
        what: name of the repository, for messages.
    """
    top = {name for name in names if "/" not in name}
    if "model.bin" in top:
        patterns: tuple[str, ...] = _CTRANSLATE2
        weights = ["model.bin"]
    elif "config.json" in top and (there := [name for name in WEIGHTS if name in top]):
        patterns, weights = _HUGGING_FACE, there[:1]
        if there[0].endswith(".index.json"):
            weights = sorted(fnmatch.filter(top, _SHARD)) + weights
    else:
        patterns = _MARIAN
        weights = sorted(name for name in top if name.endswith((".npz", ".bin")))
    if not weights:
        listed = ", ".join(name[:80] for name in sorted(top)[:8]) or "nothing"
        raise ImportedModelError(
            f"{what}: expected {', '.join(WEIGHTS)}, CTranslate2's model.bin or Marian's *.npz. Received: {listed}. "
            "Choose a repository with weights in one of these formats."
        )
    patterns = (*patterns, *_TOKENIZERS, *_CARD)
    wanted = {name for name in top if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}
    return sorted(wanted - set(weights)) + weights


def _api() -> "HfApi":
    try:
        import huggingface_hub
    except ModuleNotFoundError:
        raise ImportedModelError(
            "Expected huggingface_hub, which downloads models of the Hugging Face hub. Received: it is not installed. "
            'Install the extra: pip install "tf_transformer[hub]".'
        ) from None
    return huggingface_hub.HfApi()


def _ask(api: "HfApi", repository: str, revision: str, advice: str) -> Any:
    """The commit, the files with their sizes and checksums, and the model card of a repository.

    If the hub cannot be reached: the folder in the cache, where a download of this revision was completed.
    """
    try:
        return api.model_info(repository, revision=revision, files_metadata=True)
    except Exception as error:  # the HTTP library's own, which differs by version of huggingface_hub
        explained = _explained(error, f"{HUB}{repository}", advice)
    if isinstance(explained, TemporaryError) and (folder := _cached(api, repository, revision)):
        return folder
    raise explained


def _check_info(info: Any, name: str) -> None:
    """Reject a description of a repository without a commit, or of files without names and sizes."""
    files = info.siblings
    named = isinstance(files, list) and all(
        isinstance(file.rfilename, str)
        and len(file.rfilename) <= _LONGEST_NAME
        and (file.size is None or (type(file.size) is int and file.size >= 0))
        for file in files
    )
    if not isinstance(info.sha, str) or not _COMMIT.fullmatch(info.sha) or not named:
        raise ImportedModelError(
            f"{name}: expected the hub to name a commit and files. Received: something else. Check HF_ENDPOINT."
        )


def _cached(api: "HfApi", repository: str, revision: str) -> pathlib.Path | None:
    """The folder of a revision in the cache; None if it has no weights, which are downloaded last."""
    for name in ("config.json", "README.md"):
        with contextlib.suppress(OSError, ValueError):
            folder = _downloaded(api, repository, name, revision, local_files_only=True).parent
            if any((folder / each).is_file() for each in (*WEIGHTS, "model.bin")) or any(folder.glob("*.npz")):
                return folder
    return None


def _fetch(api: "HfApi", repository: str, commit: str, file: Any, advice: str) -> None:
    """Download one file into the hub's cache, or resumes it; a file with other content is removed."""
    try:
        path = _downloaded(api, repository, file.rfilename, commit)
    except Exception as error:  # as above
        raise _explained(error, f"{file.rfilename} of {HUB}{repository}", advice) from None
    if problem := _difference(path, file):
        path.resolve().unlink()
        path.unlink(missing_ok=True)
        raise TemporaryError(f"{file.rfilename}: {problem}; the file was removed")


def _difference(path: pathlib.Path, file: Any) -> str | None:
    """Difference of a file from the description of the hub; None if there is none."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return f"expected {file.size:,} bytes. Received: {size:,} bytes"
    expected, found = None, None
    if file.lfs is not None:
        expected, found = file.lfs.sha256, sha256_of_file(path)
    elif file.blob_id is not None and size <= MAX_BYTES // 1024:
        expected, found = file.blob_id, git_blob_id(path)
    return f"expected the checksum {expected!s:.80}. Received: {found}" if expected != found else None


def _explained(error: Exception, what: str, advice: str) -> Exception:
    """A TemporaryError where another attempt may help, else an ImportedModelError."""
    code = getattr(getattr(error, "response", None), "status_code", None)
    if code is None or code == 429 or code >= 500:
        return TemporaryError(shorten(error))
    reasons = {401: "there is no such repository, or it is private (HF_TOKEN)", 403: "access is restricted (HF_TOKEN)"}
    reasons |= {404: "there is no such repository, revision or file"}
    reason = reasons.get(code, shorten(error))
    return ImportedModelError(f"Expected to download {what}. Received: {code} of the hub: {reason}.\n{advice}")


def _advice(api: "HfApi", repository: str, revision: str, files: Iterable[str]) -> str:
    """Files to download by hand, and their place."""
    name = repository.rpartition("/")[2]
    addresses = [f"  {api.endpoint}/{repository}/resolve/{revision}/{file}" for file in files][:_LISTED]
    if addresses:
        listed = "\n".join(["Download these files in another way:", *addresses])
    else:
        listed = (
            f"Download the model's files from {api.endpoint}/{repository}/tree/{revision} in another way: config.json, "
            f"the vocabulary (*.json), the SentencePiece models (*.spm, *.model), README.md and {WEIGHTS[0]} (or "
            f"{WEIGHTS[2]})."
        )
    return f"{listed}\nPut them into one folder, for example {name}, and import it: `--from {name}`."


def _folder(api: "HfApi", repository: str, commit: str, file: str) -> pathlib.Path:
    """The folder of a commit in the hub's cache."""
    return _downloaded(api, repository, file, commit).parent


def _downloaded(api: "HfApi", repository: str, file: str, revision: str, **options: Any) -> pathlib.Path:
    """The path of a file in the hub's cache."""
    from huggingface_hub import constants

    place = constants.HF_HUB_CACHE
    return pathlib.Path(api.hf_hub_download(repository, file, revision=revision, cache_dir=place, **options))


def _licence(info: Any) -> str | None:
    """The licence in the model card; its own name where the card says "other"."""
    card = info.card_data
    if not hasattr(card, "get"):
        return None
    named = card.get("license_name") if card.get("license") == "other" else card.get("license")
    named = named[0] if isinstance(named, list) and named else named
    return named[:300] if isinstance(named, str) and named else None
